// The shares of topics of documents, and how well the topics tell words that they did not see.
#include "apps/data/corpus.h"
#include "apps/lda/topic_model.h"
#include "apps/lda/topic_shares.h"
#include "apps/predict/predictors.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

// Smaller shares are not told.
constexpr double kLeastShare = 0.001;

std::string shares_text(const std::vector<double>& shares) {
  std::string text;
  for (size_t topic = 0; topic < shares.size(); ++topic)
    if (shares[topic] >= kLeastShare)
      text += format("{}{}:{:.4f}", text.empty() ? "" : " ", topic, shares[topic]);
  return text + "\n";
}

}  // namespace

Prediction predict_topics(const PredictRequest& request) {
  const TopicModel model = read_topic_model(request.model);
  const Corpus corpus = read_documents(FileBytes(request.data), model.words(), {0, INT64_MAX});
  const TopicShares shares(model);

  Prediction prediction;
  for (int64_t document = 0; document < corpus.documents(); ++document)
    prediction.text += shares_text(shares.of(corpus.document(document)));
  prediction.measures = {{"model", "lda"}, {"documents", corpus.documents()}};
  prediction.summary = format("{} predicted", plural(corpus.documents(), "document"));
  if (tokens_to_tell(corpus) == 0) return prediction;
  const double told = held_out(model, corpus);
  prediction.measures["held_out_log_likelihood_per_token"] = told;
  prediction.summary += format(": log-likelihood {:.5f} per held-out token", told);
  return prediction;
}

}  // namespace kerf::apps
