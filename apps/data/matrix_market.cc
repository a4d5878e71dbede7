#include "apps/data/matrix_market.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "apps/data/sparse_entries.h"
#include "apps/data/text_lines.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr std::string_view kMarketMagic = "%%matrixmarket";
constexpr int64_t kMostExact = int64_t{1} << 53;  // up to which a double has every integer
constexpr size_t kPieceWritten = size_t{1} << 20;

enum class Form { kCoordinates, kValues };
enum class Values { kReal, kInteger, kPattern };
enum class Symmetry { kGeneral, kSymmetric, kSkew };

struct Head {
  Form form = Form::kCoordinates;
  Values values = Values::kReal;
  Symmetry symmetry = Symmetry::kGeneral;
  MatrixSize size;
};

std::string lowered(std::string_view word) {
  std::string lower(word);
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

// Which of the words comes next, by its number.
size_t choice(const TextLines& lines, Fields& fields, std::string_view of,
              const std::vector<std::string_view>& known) {
  const Fields before = fields;
  const auto found = std::find(known.begin(), known.end(), lowered(fields.word()));
  if (found == known.end())
    lines.expected(format("the {} {}", of, fmt::join(known, " or ")), before);
  return static_cast<size_t>(found - known.begin());
}

// The next line that says something.
std::optional<Fields> next_fields(TextLines& lines) {
  while (const auto line = lines.next())
    if (!line->starts_with('%') && !Fields(*line).done()) return Fields(*line);
  return std::nullopt;
}

// An integer of [least, most].
int64_t integer(const TextLines& lines, Fields& fields, std::string_view what, int64_t least,
                int64_t most) {
  const Fields before = fields;
  int64_t number = 0;
  if (!fields.take(number) || number < least || number > most) [[unlikely]]
    lines.expected(format("{} from {} to {}", what, least, most), before);
  return number;
}

void expect_end(const TextLines& lines, Fields& fields) {
  if (!fields.done()) [[unlikely]]
    lines.expected("the line's end", fields);
}

// How many values an array has.
int64_t array_values(const Head& head) {
  const int64_t rows = head.size.rows;
  if (head.symmetry == Symmetry::kSymmetric) return rows * (rows + 1) / 2;
  if (head.symmetry == Symmetry::kSkew) return rows * (rows - 1) / 2;
  return rows * head.size.columns;
}

void read_size_line(TextLines& lines, Head& head) {
  const bool array = head.form == Form::kValues;
  auto fields = next_fields(lines);
  if (!fields)
    lines.refuse(format("expected '{}', found the file's end",
                        array ? "ROWS COLUMNS" : "ROWS COLUMNS ENTRIES"));
  head.size.rows = integer(lines, *fields, "a number of rows", 0, kMostIndices);
  head.size.columns = integer(lines, *fields, "a number of columns", 0, kMostIndices);
  head.size.entries =
      array ? array_values(head) : integer(lines, *fields, "a number of entries", 0, INT64_MAX);
  expect_end(lines, *fields);
  const auto [rows, columns, entries] = head.size;
  if (head.symmetry != Symmetry::kGeneral && rows != columns)
    lines.refuse(
        format("a symmetric matrix is square; this has {} rows and {} columns", rows, columns));
  const size_t bytes = lines.file().size();
  const int64_t shortest = array ? 2 : 4;  // "1\n", "1 1\n"
  if (entries > (static_cast<int64_t>(bytes) + 1) / shortest)
    lines.refuse(format("it claims {} entries, and the file has {} bytes", entries, bytes));
  if (!may_claim(columns, bytes))
    lines.refuse(format("it claims {} columns, and the file has {} bytes", columns, bytes));
}

Head read_head(TextLines& lines) {
  Fields fields(lines.next().value_or(""));
  if (lowered(fields.word()) != kMarketMagic)
    lines.refuse("it is no Matrix Market file (expected one that begins with %%MatrixMarket)");
  Head head;
  choice(lines, fields, "object", {"matrix"});
  head.form = static_cast<Form>(choice(lines, fields, "format", {"coordinate", "array"}));
  head.values =
      static_cast<Values>(choice(lines, fields, "values", {"real", "integer", "pattern"}));
  head.symmetry = static_cast<Symmetry>(
      choice(lines, fields, "symmetry", {"general", "symmetric", "skew-symmetric"}));
  expect_end(lines, fields);
  if (head.values == Values::kPattern && head.form == Form::kValues)
    lines.refuse("a pattern has coordinates; an array has values");
  if (head.values == Values::kPattern && head.symmetry == Symmetry::kSkew)
    lines.refuse("a pattern has no signs, which a skew-symmetric matrix needs");
  read_size_line(lines, head);
  return head;
}

double value(const TextLines& lines, Fields& fields, Values kind) {
  if (kind == Values::kPattern) return 1;
  if (kind == Values::kInteger)
    return static_cast<double>(integer(lines, fields, "an integer", -kMostExact, kMostExact));
  const Fields before = fields;
  double number = 0;
  if (!fields.take(number) || !std::isfinite(number)) [[unlikely]]
    lines.expected("a finite number", before);
  return number;
}

// The next line of entries, of which there were so many.
Fields next_entry(TextLines& lines, const Head& head, int64_t found) {
  auto fields = next_fields(lines);
  if (!fields) [[unlikely]]
    lines.refuse(format("it ends after {} entries; it claims {}", found, head.size.entries));
  return *fields;
}

// The first row of a column that an array or the lower half has.
int64_t first_row(const Head& head, int64_t column) {
  if (head.symmetry == Symmetry::kGeneral) return 0;
  return head.symmetry == Symmetry::kSymmetric ? column : column + 1;
}

template <class Act>
void act_on_both(const Head& head, int64_t row, int64_t column, double number, const Act& act) {
  act(row, column, number);
  if (head.symmetry != Symmetry::kGeneral && row != column)
    act(column, row, head.symmetry == Symmetry::kSkew ? -number : number);
}

template <class Act>
void for_each_coordinate(TextLines& lines, const Head& head, const Act& act) {
  for (int64_t i = 0; i < head.size.entries; ++i) {
    Fields fields = next_entry(lines, head, i);
    const int64_t row = integer(lines, fields, "a row", 1, head.size.rows) - 1;
    const int64_t column = integer(lines, fields, "a column", 1, head.size.columns) - 1;
    const double number = value(lines, fields, head.values);
    expect_end(lines, fields);
    if (row < first_row(head, column)) [[unlikely]]
      lines.refuse(
          format("expected a place {} the diagonal, as the matrix is {}symmetric, found "
                 "row {}, column {}",
                 head.symmetry == Symmetry::kSkew ? "below" : "on or below",
                 head.symmetry == Symmetry::kSkew ? "skew-" : "", row + 1, column + 1));
    act_on_both(head, row, column, number, act);
  }
}

template <class Act>
void for_each_in_array(TextLines& lines, const Head& head, const Act& act) {
  int64_t found = 0;
  for (int64_t column = 0; column < head.size.columns; ++column)
    for (int64_t row = first_row(head, column); row < head.size.rows; ++row) {
      Fields fields = next_entry(lines, head, found++);
      const double number = value(lines, fields, head.values);
      expect_end(lines, fields);
      act_on_both(head, row, column, number, act);
    }
}

// Calls act(row, column, value) for each entry that the matrix has, while the lines stand at the
// one that tells it.
template <class Act>
void for_each_entry(TextLines& lines, const Head& head, const Act& act) {
  if (head.form == Form::kValues)
    for_each_in_array(lines, head, act);
  else
    for_each_coordinate(lines, head, act);
  if (const auto more = next_fields(lines))
    lines.expected(format("nothing behind its {} entries", head.size.entries), *more);
}

// Goes through the file once more: only a file with this fault pays for the lines' numbers.
[[noreturn]] void refuse_twice(const ByteSource& file, Place place) {
  TextLines lines(file);
  const Head head = read_head(lines);
  int64_t first = 0;
  for_each_entry(lines, head, [&](int64_t row, int64_t column, double /*value*/) {
    if (Place{row, column} != place) return;
    if (first > 0)
      lines.refuse(
          format("row {}, column {} has an entry already, on line {}", row + 1, column + 1, first));
    first = lines.number();
  });
  lines.refuse("it changed while it was read");
}

void write_pieces(runtime::AtomicFile& file, fmt::memory_buffer& text, size_t least) {
  if (text.size() < least) return;
  file.write({text.data(), text.size()});
  text.clear();
}

void expect_finite(const std::filesystem::path& path, std::span<const double> values) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [](double number) { return !std::isfinite(number); });
  if (found != values.end())
    throw Error(ErrorCode::kUsage,
                format("value {} of {} is {}; a matrix has finite ones", found - values.begin() + 1,
                       values.size(), *found),
                path.string());
}

}  // namespace

MatrixSize read_matrix_market_size(const ByteSource& file) {
  TextLines lines(file);
  return read_head(lines).size;
}

SparseColumns read_matrix_market(const ByteSource& file, ops::Range rows) {
  TextLines lines(file);
  const Head head = read_head(lines);
  expect_rows(rows, head.size, file.origin());
  SparseEntries entries;
  const int64_t mirrored = head.symmetry == Symmetry::kGeneral ? 1 : 2;
  entries.reserve(likely_entries(mirrored * head.size.entries, rows, head.size.rows));
  const bool sparse = head.form == Form::kCoordinates;
  for_each_entry(lines, head, [&](int64_t row, int64_t column, double number) {
    if (row >= rows.begin && row < rows.end && (sparse || number != 0))
      entries.add(row - rows.begin, column, number);
  });
  SparseColumns matrix = std::move(entries).in_columns(rows.size(), head.size.columns);
  if (const auto place = place_taken_twice(matrix))
    refuse_twice(file, {place->row + rows.begin, place->column});
  return matrix;
}

std::vector<double> read_dense_column(const ByteSource& file) {
  TextLines lines(file);
  const Head head = read_head(lines);
  if (head.size.columns != 1)
    lines.refuse(format("it has {} columns; expected one", head.size.columns));
  if (!may_claim(head.size.rows, file.size()))
    lines.refuse(
        format("it claims {} rows, and the file has {} bytes", head.size.rows, file.size()));
  std::vector<double> column(static_cast<size_t>(head.size.rows));
  std::vector<bool> there(column.size());
  for_each_entry(lines, head, [&](int64_t row, int64_t /*column*/, double number) {
    const auto i = static_cast<size_t>(row);
    if (there[i]) refuse_twice(file, {row, 0});
    there[i] = true;
    column[i] = number;
  });
  return column;
}

void write_matrix_market(const std::filesystem::path& path, const SparseColumns& matrix) {
  expect_finite(path, matrix.values);
  runtime::AtomicFile file(path);
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text),
                 "%%MatrixMarket matrix coordinate real general\n{} {} {}\n", matrix.rows,
                 matrix.columns, matrix.entries());
  for (int64_t j = 0; j < matrix.columns; ++j) {
    const auto rows = matrix.rows_of(j);
    const auto values = matrix.values_of(j);
    for (size_t i = 0; i < rows.size(); ++i) {
      fmt::format_to(std::back_inserter(text), "{} {} {}\n", rows[i] + 1, j + 1, values[i]);
      write_pieces(file, text, kPieceWritten);
    }
  }
  write_pieces(file, text, 0);
  file.commit();
}

void write_matrix_market(const std::filesystem::path& path, std::span<const double> values,
                         int64_t columns) {
  const auto width = static_cast<size_t>(columns);
  KERF_CHECK(columns >= 1 && values.size() % width == 0, "{} values in {} columns", values.size(),
             columns);
  expect_finite(path, values);
  runtime::AtomicFile file(path);
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "%%MatrixMarket matrix array real general\n{} {}\n",
                 values.size() / width, columns);
  for (size_t column = 0; column < width; ++column)
    for (size_t i = column; i < values.size(); i += width) {
      fmt::format_to(std::back_inserter(text), "{}\n", values[i]);
      write_pieces(file, text, kPieceWritten);
    }
  write_pieces(file, text, 0);
  file.commit();
}

}  // namespace kerf::apps
