// X b of the rows of a matrix, and how far that is from y.
#include <cmath>

#include "apps/data/matrix_file.h"
#include "apps/predict/predictors.h"
#include "runtime/error.h"

namespace kerf::apps {

Prediction predict_lasso(const PredictRequest& request) {
  const std::vector<double> b = read_column(request.model);
  const MatrixSize size = matrix_size(request.data);
  if (size.columns != std::ssize(b))
    throw Error(ErrorCode::kUsage,
                format("it has {}, and the model has {} coefficients",
                       plural(size.columns, "column"), b.size()),
                request.data.string());
  const SparseColumns x = read_matrix(request.data, {0, size.rows});
  std::vector<double> predicted(static_cast<size_t>(size.rows));
  for (int64_t column = 0; column < size.columns; ++column)
    add_column(x, column, b[static_cast<size_t>(column)], predicted);

  Prediction prediction;
  for (const double each : predicted) prediction.text += format("{}\n", each);
  prediction.measures = {{"model", "lasso"}, {"rows", size.rows}};
  prediction.summary = format("{} predicted", plural(size.rows, "row"));
  if (request.y.empty() || size.rows == 0) return prediction;
  const std::vector<double> y = read_column(request.y);
  if (std::ssize(y) != size.rows)
    throw Error(ErrorCode::kUsage,
                format("it has {}, and {} has {}", plural(std::ssize(y), "row"),
                       request.data.string(), size.rows),
                request.y.string());
  double squares = 0;
  for (size_t i = 0; i < y.size(); ++i) squares += (y[i] - predicted[i]) * (y[i] - predicted[i]);
  const double rmse = std::sqrt(squares / static_cast<double>(y.size()));
  prediction.measures["rmse"] = rmse;
  prediction.summary += format(": RMSE {:.6g}", rmse);
  return prediction;
}

}  // namespace kerf::apps
