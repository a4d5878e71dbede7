#include "apps/data/sparse_entries.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

// Hashed features are many and mostly absent: a file may have more columns than bytes.
constexpr int64_t kFreeIndices = int64_t{1} << 20;
constexpr int64_t kIndicesPerByte = 16;

}  // namespace

bool may_claim(int64_t extent, size_t bytes) {
  return extent <= kFreeIndices || extent / kIndicesPerByte <= static_cast<int64_t>(bytes);
}

void expect_rows(ops::Range rows, const MatrixSize& size, const std::string& origin) {
  if (rows.begin < 0 || rows.begin > rows.end || rows.end > size.rows)
    throw Error(
        ErrorCode::kUsage,
        format("it has {} rows; asked for were those of [{}, {})", size.rows, rows.begin, rows.end),
        origin);
}

size_t likely_entries(int64_t entries, ops::Range rows, int64_t of) {
  if (rows.size() == of) return static_cast<size_t>(entries);
  const double part = static_cast<double>(rows.size()) / static_cast<double>(of);
  const auto likely = static_cast<int64_t>(static_cast<double>(entries) * part * 1.1) + 1024;
  return static_cast<size_t>(std::min(entries, likely));
}

void SparseEntries::reserve(size_t entries) {
  row_.reserve(entries);
  column_.reserve(entries);
  values_.reserve(entries);
}

SparseColumns SparseEntries::in_columns(int64_t rows, int64_t columns) && {
  SparseColumns made{rows, columns, std::vector<int64_t>(static_cast<size_t>(columns) + 1), {}, {}};
  for (const int32_t column : column_) ++made.begins[static_cast<size_t>(column) + 1];
  for (size_t j = 1; j < made.begins.size(); ++j) made.begins[j] += made.begins[j - 1];
  if (!std::is_sorted(column_.begin(), column_.end())) move_to_columns(made.begins);
  column_ = {};
  for (size_t j = 0; j + 1 < made.begins.size(); ++j)
    sort_column(static_cast<size_t>(made.begins[j]), static_cast<size_t>(made.begins[j + 1]));
  made.row = std::move(row_);
  made.values = std::move(values_);
  return made;
}

// McIlroy, Bostic and McIlroy, Engineering Radix Sort (1993), "American flag sort": each swap
// brings one entry into its column.
void SparseEntries::move_to_columns(const std::vector<int64_t>& begins) {
  std::vector<int64_t> next(begins.begin(), begins.end() - 1);
  for (size_t j = 0; j < next.size(); ++j)
    while (next[j] < begins[j + 1]) {
      const auto here = static_cast<size_t>(next[j]);
      const auto there = static_cast<size_t>(next[static_cast<size_t>(column_[here])]++);
      if (here == there) continue;
      std::swap(column_[here], column_[there]);
      std::swap(row_[here], row_[there]);
      std::swap(values_[here], values_[there]);
    }
}

void SparseEntries::sort_column(size_t begin, size_t end) {
  const auto first = row_.begin() + static_cast<std::ptrdiff_t>(begin);
  if (std::is_sorted(first, row_.begin() + static_cast<std::ptrdiff_t>(end))) return;
  std::vector<std::pair<int32_t, double>> entries;
  entries.reserve(end - begin);
  for (size_t i = begin; i < end; ++i) entries.emplace_back(row_[i], values_[i]);
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = begin; i < end; ++i) std::tie(row_[i], values_[i]) = entries[i - begin];
}

std::optional<Place> place_taken_twice(const SparseColumns& matrix) {
  for (int64_t j = 0; j < matrix.columns; ++j) {
    const auto rows = matrix.rows_of(j);
    const auto same = std::adjacent_find(rows.begin(), rows.end());
    if (same != rows.end()) return Place{*same, j};
  }
  return std::nullopt;
}

}  // namespace kerf::apps
