// The labels of rows, by logistic regression with the probability of the larger one, and how many
// of them are those that the rows have.
#include "apps/classifier/linear_model.h"
#include "apps/data/libsvm.h"
#include "apps/data/matrix_file.h"
#include "apps/data/transposed.h"
#include "apps/predict/predictors.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

// Without labels where they are not known: of a matrix without --y.
LabelledRows rows_of(const PredictRequest& request) {
  if (!is_matrix_file(request.data)) {
    if (!request.y.empty())
      throw Error(ErrorCode::kUsage, "the rows have labels themselves; it is for matrices", "--y");
    return read_libsvm(FileBytes(request.data));
  }
  const MatrixSize size = matrix_size(request.data);
  LabelledRows rows{transposed(read_matrix(request.data, {0, size.rows})), {}};
  if (!request.y.empty()) rows.labels = read_column(request.y);
  if (!request.y.empty() && std::ssize(rows.labels) != size.rows)
    throw Error(ErrorCode::kUsage,
                format("it has {}, and {} has {}", plural(std::ssize(rows.labels), "row"),
                       request.data.string(), size.rows),
                request.y.string());
  return rows;
}

}  // namespace

Prediction predict_classes(const PredictRequest& request) {
  const LinearModel model = read_linear_model(FileBytes(request.model));
  const LabelledRows data = rows_of(request);
  const bool logistic = model.loss == LinearLoss::kLogistic;

  Prediction prediction;
  for (int64_t row = 0; row < data.rows.columns; ++row) {
    const double score = model.score(data.rows.rows_of(row), data.rows.values_of(row));
    prediction.text += format("{}", model.label_of(score));
    if (logistic) prediction.text += format(" {}", probability_of(score));
    prediction.text += '\n';
  }
  prediction.measures = {{"model", logistic ? "logistic" : "svm"}, {"rows", data.rows.columns}};
  prediction.summary = format("{} predicted", plural(data.rows.columns, "row"));
  if (data.labels.empty()) return prediction;
  const double accuracy = accuracy_of(model, data);
  prediction.measures["accuracy"] = accuracy;
  prediction.summary += format(": {:.2f} % have that label", 100 * accuracy);
  return prediction;
}

}  // namespace kerf::apps
