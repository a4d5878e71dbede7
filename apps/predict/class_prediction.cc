// The labels of rows, by logistic regression with the probability of the larger one, and how many
// of them are those that the rows have.
#include "apps/classifier/linear_model.h"
#include "apps/data/libsvm.h"
#include "apps/predict/predictors.h"

namespace kerf::apps {

Prediction predict_classes(const PredictRequest& request) {
  const LinearModel model = read_linear_model(FileBytes(request.model));
  const LabelledRows data = read_libsvm(FileBytes(request.data));
  const bool logistic = model.loss == LinearLoss::kLogistic;

  Prediction prediction;
  for (int64_t row = 0; row < data.rows.columns; ++row) {
    const double score = model.score(data.rows.rows_of(row), data.rows.values_of(row));
    prediction.text += format("{}", model.label_of(score));
    if (logistic) prediction.text += format(" {}", probability_of(score));
    prediction.text += '\n';
  }
  const double accuracy = accuracy_of(model, data);
  prediction.measures = {{"model", logistic ? "logistic" : "svm"},
                         {"rows", data.rows.columns},
                         {"accuracy", accuracy}};
  prediction.summary = format("{} predicted: {:.2f} % have that label",
                              plural(data.rows.columns, "row"), 100 * accuracy);
  return prediction;
}

}  // namespace kerf::apps
