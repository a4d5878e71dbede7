#include "apps/data/csv.h"

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "apps/data/sparse_entries.h"
#include "apps/data/text_lines.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<double> number_of(std::string_view field) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  double number = 0;
  const char* const end = field.data() + field.size();
  const auto [next, fault] = std::from_chars(field.data(), end, number);
  return fault == std::errc() && next == end && std::isfinite(number) ? std::optional(number)
                                                                      : std::nullopt;
}

// Calls act(column, field) for each field of a line; how many there are.
template <class Act>
int64_t for_each_field(std::string_view line, const Act& act) {
  int64_t column = 0;
  for (size_t begin = 0; begin <= line.size(); ++column) {
    const size_t comma = std::min(line.find(',', begin), line.size());
    act(column, trimmed(line.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return column;
}

// What may only be meant for a number: it begins like one, or is empty.
bool is_no_name(std::string_view field) {
  double number = 0;
  return field.empty() || number_of(field) ||
         std::from_chars(field.data(), field.data() + field.size(), number).ec !=
             std::errc::invalid_argument;
}

bool has_names(std::string_view line) {
  bool names = true;
  for_each_field(line, [&](int64_t, std::string_view field) { names &= !is_no_name(field); });
  return names;
}

// That some programs begin a text with.
std::string_view without_byte_order_mark(std::string_view line) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return line.starts_with(kMark) ? line.substr(kMark.size()) : line;
}

// Calls act(row, column, value) for all numbers, line by line. Returns rows and columns.
template <class Act>
MatrixSize for_each_number(const ByteSource& file, const Act& act) {
  TextLines lines(file);
  MatrixSize size;
  bool first = true;
  while (auto line = lines.next()) {
    if (lines.number() == 1) line = without_byte_order_mark(*line);
    if (trimmed(*line).empty()) continue;
    if (std::exchange(first, false) && has_names(*line)) {
      size.columns = for_each_field(*line, [](int64_t, std::string_view) {});
      continue;
    }
    const int64_t fields = for_each_field(*line, [&](int64_t column, std::string_view field) {
      const auto number = number_of(field);
      if (!number) [[unlikely]]
        lines.expected("a finite number", Fields(field));
      act(size.rows, column, *number);
    });
    if (size.columns == 0) size.columns = fields;
    if (fields != size.columns)
      lines.refuse(
          format("it has {}; the line before it has {}", plural(fields, "field"), size.columns));
    if (++size.rows > kMostIndices) lines.refuse(format("it has more than {} rows", kMostIndices));
  }
  size.entries = size.rows * size.columns;
  return size;
}

}  // namespace

MatrixSize read_csv_size(const ByteSource& file) {
  return for_each_number(file, [](int64_t, int64_t, double) {});
}

SparseColumns read_csv(const ByteSource& file, ops::Range rows) {
  SparseEntries entries;
  const MatrixSize size = for_each_number(file, [&](int64_t row, int64_t column, double number) {
    if (row >= rows.begin && row < rows.end && number != 0)
      entries.add(row - rows.begin, column, number);
  });
  expect_rows(rows, size, file.origin());
  return std::move(entries).in_columns(rows.size(), size.columns);
}

std::vector<double> read_csv_column(const ByteSource& file) {
  std::vector<double> values;
  const MatrixSize size =
      for_each_number(file, [&](int64_t, int64_t, double number) { values.push_back(number); });
  if (size.columns > 1)
    throw Error(ErrorCode::kUsage, format("it has {} columns; expected one", size.columns),
                file.origin());
  return values;
}

}  // namespace kerf::apps
