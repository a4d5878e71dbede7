#include "apps/data/libsvm.h"

#include <algorithm>
#include <cmath>
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

// The entries of a row; the largest column of them.
int64_t read_entries(const TextLines& lines, Fields& fields, int64_t row, int64_t columns,
                     SparseEntries& entries) {
  int64_t last = 0;
  while (!fields.done()) {
    const Fields before = fields;
    int64_t column = 0;
    if (!fields.take_key(column)) [[unlikely]]
      lines.expected("INDEX:VALUE", before);
    if (column <= last || column > columns) [[unlikely]]
      lines.expected(format("an index from {} to {}", last + 1, columns), before);
    const double value = finite(lines, fields, "a finite value behind the ':'");
    entries.add(row, column - 1, value);
    last = column;
  }
  return last;
}

}  // namespace

LabelledColumns read_libsvm(const ByteSource& file, int64_t columns) {
  KERF_CHECK(columns >= 0 && columns <= kMostIndices, "{} columns", columns);
  TextLines lines(file);
  SparseEntries entries;
  std::vector<double> labels;
  int64_t largest = 0;
  while (const auto line = lines.next()) {
    Fields fields(line->substr(0, line->find('#')));
    if (fields.done()) continue;
    const int64_t row = std::ssize(labels);
    if (row == kMostIndices) lines.refuse(format("more than {} rows", kMostIndices));
    labels.push_back(finite(lines, fields, "a finite number as the label"));
    const int64_t last =
        read_entries(lines, fields, row, columns > 0 ? columns : kMostIndices, entries);
    if (last > largest && columns == 0 && !may_claim(last, file.size()))
      lines.refuse(
          format("index {} is beyond what a file of {} bytes may claim", last, file.size()));
    largest = std::max(largest, last);
  }
  return {std::move(entries).in_columns(std::ssize(labels), columns > 0 ? columns : largest),
          std::move(labels)};
}

}  // namespace kerf::apps
