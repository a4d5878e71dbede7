// A file for each kind of model. Each throws Error{kUsage} as predict() does.
#pragma once

#include "apps/predict/prediction.h"

namespace kerf::apps {

Prediction predict_lasso(const PredictRequest& request);
Prediction predict_ratings(const PredictRequest& request);
Prediction predict_classes(const PredictRequest& request);
Prediction predict_topics(const PredictRequest& request);

}  // namespace kerf::apps
