#include "apps/predict/prediction.h"

#include "apps/data/byte_source.h"
#include "apps/data/text_lines.h"
#include "apps/predict/predictors.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

struct ModelKind {
  const char* begin;  // of the first line
  Prediction (*predict)(const PredictRequest& request);
};

constexpr ModelKind kModelKinds[] = {{"%%MatrixMarket", predict_lasso},
                                     {"kerf mf:", predict_ratings},
                                     {"kerf lda:", predict_topics},
                                     {"kerf logistic:", predict_classes},
                                     {"kerf svm:", predict_classes}};

}  // namespace

Prediction predict(const PredictRequest& request) {
  const bool folder = std::filesystem::is_directory(request.model);
  const FileBytes file(folder ? request.model / "model.txt" : request.model);
  TextLines lines(file);
  const std::string first(lines.next().value_or(""));
  for (const ModelKind& kind : kModelKinds) {
    if (!first.starts_with(kind.begin)) continue;
    const bool takes_y = kind.predict == predict_lasso || kind.predict == predict_classes;
    if (!takes_y && !request.y.empty())
      throw Error(ErrorCode::kUsage, "it is for models of kerf lasso, logistic and svm", "--y");
    return kind.predict(request);
  }
  lines.refuse("it is no model of kerf lasso, mf, lda, logistic or svm");
}

}  // namespace kerf::apps
