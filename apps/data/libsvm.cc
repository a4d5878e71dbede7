#include "apps/data/libsvm.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "apps/data/sparse_entries.h"
#include "apps/data/text_lines.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

double finite(const TextLines& lines, Fields& fields, std::string_view what) {
  const Fields before = fields;
  double number = 0;
  if (!fields.take(number) || !std::isfinite(number)) [[unlikely]]
    lines.expected(std::string(what), before);
  return number;
}

double label(const TextLines& lines, Fields& fields) {
  return finite(lines, fields, "a finite number as the label");
}

// Takes the index of an entry, which is above `last` and at most `columns`.
int64_t index_of(const TextLines& lines, Fields& fields, int64_t last, int64_t columns) {
  const Fields before = fields;
  int64_t column = 0;
  if (!fields.take_key(column)) [[unlikely]]
    lines.expected("INDEX:VALUE", before);
  if (column <= last || column > columns) [[unlikely]]
    lines.expected(format("an index from {} to {}", last + 1, columns), before);
  return column;
}

// So few bytes must not make a model of gigabytes.
void expect_may_claim(const TextLines& lines, int64_t columns) {
  if (!may_claim(columns, lines.file().size()))
    lines.refuse(format("index {} is beyond what a file of {} bytes may claim", columns,
                        lines.file().size()));
}

// Calls take(fields, row) for every row, with what is behind blanks and before a comment, until it
// answers false. How many rows it took.
template <class Take>
int64_t for_each_row(TextLines& lines, const Take& take) {
  int64_t row = 0;
  while (const auto line = lines.next()) {
    Fields fields(line->substr(0, line->find('#')));
    if (fields.done()) continue;
    if (row == kMostIndices) lines.refuse(format("more than {} rows", kMostIndices));
    if (!take(fields, row)) break;
    ++row;
  }
  return row;
}

// Appends the entries of a row; the largest column of them.
int64_t read_entries(const TextLines& lines, Fields& fields, int64_t columns, SparseColumns& rows) {
  int64_t last = 0;
  while (!fields.done()) {
    last = index_of(lines, fields, last, columns);
    rows.row.push_back(static_cast<int32_t>(last - 1));
    rows.values.push_back(finite(lines, fields, "a finite value behind the ':'"));
  }
  rows.begins.push_back(rows.entries());
  return last;
}

}  // namespace

LabelledRows read_libsvm(const ByteSource& file, int64_t columns, std::optional<ops::Range> kept) {
  KERF_CHECK(columns >= 0 && columns <= kMostIndices, "{} columns", columns);
  TextLines lines(file);
  LabelledRows read;
  int64_t largest = 0;
  const int64_t seen = for_each_row(lines, [&](Fields& fields, int64_t row) {
    if (kept && row >= kept->end) return false;
    if (kept && row < kept->begin) return true;
    read.labels.push_back(label(lines, fields));
    const int64_t last =
        read_entries(lines, fields, columns > 0 ? columns : kMostIndices, read.rows);
    if (last > largest && columns == 0) expect_may_claim(lines, last);
    largest = std::max(largest, last);
    return true;
  });
  if (kept) expect_rows(*kept, {seen, columns, 0}, file.origin());
  read.rows.rows = columns > 0 ? columns : largest;
  read.rows.columns = std::ssize(read.labels);
  return read;
}

LibsvmLabels read_libsvm_labels(const ByteSource& file) {
  TextLines lines(file);
  LibsvmLabels read;
  for_each_row(lines, [&](Fields& fields, int64_t) {
    read.labels.push_back(label(lines, fields));
    std::string_view last;
    while (!fields.done()) last = fields.word();
    if (last.empty()) return true;
    Fields entry(last);
    const int64_t column = index_of(lines, entry, 0, kMostIndices);
    if (column > read.columns) expect_may_claim(lines, column);
    read.columns = std::max(read.columns, column);
    return true;
  });
  return read;
}

}  // namespace kerf::apps
