#include "apps/mf/mf_model.h"

#include <cmath>
#include <utility>

#include "apps/data/byte_source.h"
#include "apps/data/matrix_market.h"
#include "apps/data/named_number.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr std::string_view kMfHead = "kerf mf:";
constexpr double kLargest = 1e300;

// Row by row, of a matrix of so many rows and columns.
std::vector<double> read_rows(const std::filesystem::path& path, int64_t rows, int64_t columns) {
  const FileBytes file(path);
  const MatrixSize size = read_matrix_market_size(file);
  if (size.rows != rows || size.columns != columns || size.entries != rows * columns)
    throw Error(ErrorCode::kUsage,
                format("it is {} x {} with {}; model.txt says {} rows and a rank of {}, and all "
                       "their numbers are there",
                       size.rows, size.columns, plural(size.entries, "number"), rows, columns),
                path.string());
  const SparseColumns matrix = read_matrix_market(file, {0, rows});
  std::vector<double> all(static_cast<size_t>(rows * columns));
  for (int64_t column = 0; column < columns; ++column)
    for (size_t i = 0; i < matrix.rows_of(column).size(); ++i)
      all[static_cast<size_t>(matrix.rows_of(column)[i] * columns + column)] =
          matrix.values_of(column)[i];
  return all;
}

}  // namespace

double MfModel::rating(int64_t user, int64_t item) const {
  const double* const p = users.data() + user * rank;
  const double* const q = items.data() + item * rank;
  double sum = mean;
  for (int64_t k = 0; k < rank; ++k) sum += p[k] * q[k];
  return sum;
}

void write_mf_model(const std::filesystem::path& folder, const MfModel& model) {
  std::filesystem::remove(folder / "model.txt");  // of an earlier model, whose parts go first
  write_matrix_market(folder / "users.mtx", model.users, model.rank);
  write_matrix_market(folder / "items.mtx", model.items, model.rank);
  runtime::write_file_atomic(
      folder / "model.txt",
      format("{} rating = mean + row of users.mtx . row of items.mtx\nmean {}\nrank {}\n"
             "users {}\nitems {}\nlambda {}\n",
             kMfHead, model.mean, model.rank, model.user_count(), model.item_count(),
             model.lambda));
}

MfModel read_mf_model(const std::filesystem::path& folder) {
  const FileBytes file(folder / "model.txt");
  TextLines lines(file);
  if (!lines.next().value_or("").starts_with(kMfHead))
    lines.refuse(format("it is no model of ratings (expected one that begins with '{}')", kMfHead));
  MfModel model;
  model.mean = named_number(lines, "mean", -kLargest, kLargest);
  model.rank = named_number<int64_t>(lines, "rank", 1, kMostIndices);
  const auto users = named_number<int64_t>(lines, "users", 1, kMostIndices);
  const auto items = named_number<int64_t>(lines, "items", 1, kMostIndices);
  model.lambda = named_number(lines, "lambda", 0.0, kLargest);
  if (const auto more = lines.next()) lines.expected("nothing behind lambda", Fields(*more));
  model.users = read_rows(folder / "users.mtx", users, model.rank);
  model.items = read_rows(folder / "items.mtx", items, model.rank);
  return model;
}

SparseColumns rated_by(const MfModel& model, SparseColumns ratings) {
  KERF_CHECK(ratings.rows == model.user_count() && ratings.columns == model.item_count());
  for (int64_t item = 0; item < ratings.columns; ++item) {
    const auto begin = static_cast<size_t>(ratings.begins[static_cast<size_t>(item)]);
    const auto users = ratings.rows_of(item);
    for (size_t i = 0; i < users.size(); ++i)
      ratings.values[begin + i] = model.rating(users[i], item);
  }
  return ratings;
}

}  // namespace kerf::apps
