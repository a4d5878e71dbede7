#include "apps/classifier/labelled_file.h"

#include <algorithm>

#include "apps/data/matrix_file.h"
#include "apps/data/transposed.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

[[noreturn]] void refuse_labels(const LabelledFile& file, const std::string& what) {
  throw Error(ErrorCode::kUsage, what, file.labels.empty() ? file.data : file.labels);
}

Labels labels_of(const LabelledFile& file, const std::vector<double>& labels) {
  if (labels.empty()) refuse_labels(file, "it has no rows");
  const auto [least, most] = std::minmax_element(labels.begin(), labels.end());
  const Labels two{*least, *most};
  if (two.negative == two.positive)
    refuse_labels(file, format("all rows have the label {}; there must be two", two.negative));
  for (const double each : labels)
    if (each != two.negative && each != two.positive)
      refuse_labels(file, format("it has the labels {}, {} and {}; there must be two", two.negative,
                                 each, two.positive));
  return two;
}

std::vector<double> labels_beside(const LabelledFile& file, int64_t rows, const Working& working) {
  std::vector<double> labels = read_column(file.labels, working);
  if (std::ssize(labels) != rows)
    refuse_labels(file, format("it has {}, and {} has {}", plural(std::ssize(labels), "row"),
                               file.data, rows));
  return labels;
}

}  // namespace

bool is_matrix_file(const std::filesystem::path& path) {
  return path.extension() == ".mtx" || path.extension() == ".csv" || path.extension() == ".npz";
}

LabelledSize size_of_labelled(const LabelledFile& file) {
  LabelledSize size;
  std::vector<double> labels;
  if (file.labels.empty()) {
    LibsvmLabels read = read_libsvm_labels(FileBytes(file.data));
    size.columns = read.columns;
    labels = std::move(read.labels);
  } else {
    const MatrixSize matrix = matrix_size(file.data);
    size.columns = matrix.columns;
    labels = labels_beside(file, matrix.rows, {});
  }
  size.rows = std::ssize(labels);
  size.labels = labels_of(file, labels);
  size.positives = std::count(labels.begin(), labels.end(), size.labels.positive);
  if (size.columns == 0) throw Error(ErrorCode::kUsage, "it has no features", file.data);
  return size;
}

LabelledRows read_labelled(const LabelledFile& file, ops::Range rows, int64_t columns,
                           const Working& working) {
  if (file.labels.empty()) return read_libsvm(FileBytes(file.data, working), columns, rows);
  const std::vector<double> labels = labels_beside(file, matrix_size(file.data).rows, working);
  const SparseColumns matrix = read_matrix(file.data, rows, working);
  if (matrix.columns != columns)
    throw Error(
        ErrorCode::kUsage,
        format("another matrix than the scheduler's: {} columns, not {}", matrix.columns, columns),
        file.data);
  return {transposed(matrix), {labels.begin() + rows.begin, labels.begin() + rows.end}};
}

}  // namespace kerf::apps
