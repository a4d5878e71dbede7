// Ratings at the places of a matrix, and how far they are from those that it has there.
#include <cmath>

#include "apps/data/matrix_file.h"
#include "apps/mf/mf_model.h"
#include "apps/predict/predictors.h"
#include "runtime/error.h"

namespace kerf::apps {

Prediction predict_ratings(const PredictRequest& request) {
  const MfModel model = read_mf_model(request.model);
  const MatrixSize size = matrix_size(request.data);
  if (size.rows != model.user_count() || size.columns != model.item_count())
    throw Error(ErrorCode::kUsage,
                format("it is {} x {}, and the model has {} users and {} items", size.rows,
                       size.columns, model.user_count(), model.item_count()),
                request.data.string());
  const SparseColumns given = read_matrix(request.data, {0, size.rows});
  const SparseColumns predicted = rated_by(model, given);

  Prediction prediction;
  double squares = 0;
  for (int64_t item = 0; item < predicted.columns; ++item) {
    const auto users = predicted.rows_of(item);
    for (size_t i = 0; i < users.size(); ++i) {
      const double rating = predicted.values_of(item)[i];
      const double error = rating - given.values_of(item)[i];
      squares += error * error;
      prediction.text += format("{} {} {}\n", users[i] + 1, item + 1, rating);
    }
  }
  prediction.measures = {{"model", "mf"}, {"ratings", given.entries()}};
  prediction.summary = format("{} predicted", plural(given.entries(), "rating"));
  if (given.entries() == 0) return prediction;
  const double rmse = std::sqrt(squares / static_cast<double>(given.entries()));
  prediction.measures["rmse"] = rmse;
  prediction.summary += format(": RMSE {:.6g} from those that are there", rmse);
  return prediction;
}

}  // namespace kerf::apps
