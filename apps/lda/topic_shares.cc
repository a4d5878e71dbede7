#include "apps/lda/topic_shares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace kerf::apps {

namespace {

constexpr int kMostIterations = 200;
constexpr size_t kSumsAtOnce = 8;
constexpr double kSettled = 1e-6;  // shares that change by less in all

struct Halves {
  std::vector<WordCount> seen, told;
};

Halves halves_of(std::span<const WordCount> document) {
  Halves halves;
  bool odd = false;  // tokens so far
  for (const WordCount& each : document) {
    const bool one_over = each.count % 2 != 0;
    const int32_t seen = each.count / 2 + (one_over && !odd ? 1 : 0);
    if (seen > 0) halves.seen.push_back({each.word, seen});
    if (each.count > seen) halves.told.push_back({each.word, each.count - seen});
    odd = odd != one_over;
  }
  return halves;
}

int64_t tokens_of(std::span<const WordCount> document) {
  int64_t sum = 0;
  for (const WordCount& each : document) sum += each.count;
  return sum;
}

// Sum over k of s_k p_k.
double mixed(const double* probabilities, const std::vector<double>& shares) {
  std::array<double, kSumsAtOnce> sums{};
  for (size_t k = 0; k < shares.size(); ++k) sums[k % kSumsAtOnce] += shares[k] * probabilities[k];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

TopicShares::TopicShares(const TopicModel& model) : model_(model) {
  for (const int64_t tokens : model.topic_tokens())
    inverses_.push_back(
        1 / (static_cast<double>(tokens) + model.beta * static_cast<double>(model.words())));
}

std::vector<double> TopicShares::probabilities_of(std::span<const WordCount> document) const {
  std::vector<double> all;
  all.reserve(document.size() * inverses_.size());
  for (const WordCount& each : document) {
    const auto begin = std::ssize(all);
    for (const double inverse : inverses_) all.push_back(model_.beta * inverse);
    const auto topics = model_.counts.rows_of(each.word);
    const auto counts = model_.counts.values_of(each.word);
    for (size_t i = 0; i < topics.size(); ++i)
      all[static_cast<size_t>(begin + topics[i])] +=
          counts[i] * inverses_[static_cast<size_t>(topics[i])];
  }
  return all;
}

std::vector<double> TopicShares::of(std::span<const WordCount> document) const {
  const size_t topics = inverses_.size();
  const std::vector<double> probabilities = probabilities_of(document);
  const double scale =
      1 / (model_.alpha * static_cast<double>(topics) + static_cast<double>(tokens_of(document)));
  std::vector<double> shares(topics, 1 / static_cast<double>(topics)), next(topics);
  double change = 1;
  for (int i = 0; i < kMostIterations && change > kSettled; ++i) {
    std::fill(next.begin(), next.end(), model_.alpha * scale);
    for (size_t word = 0; word < document.size(); ++word) {
      const double* const row = probabilities.data() + word * topics;
      const double part = document[word].count * scale / mixed(row, shares);
      for (size_t k = 0; k < topics; ++k) next[k] += part * shares[k] * row[k];
    }
    change = 0;
    for (size_t k = 0; k < topics; ++k) change += std::abs(next[k] - shares[k]);
    shares.swap(next);
  }
  return shares;
}

double TopicShares::log_likelihood(std::span<const WordCount> document,
                                   const std::vector<double>& shares) const {
  const std::vector<double> probabilities = probabilities_of(document);
  double sum = 0;
  for (size_t word = 0; word < document.size(); ++word)
    sum +=
        document[word].count * std::log(mixed(probabilities.data() + word * shares.size(), shares));
  return sum;
}

int64_t tokens_to_tell(const Corpus& corpus) {
  int64_t sum = 0;
  for (int64_t document = 0; document < corpus.documents(); ++document)
    sum += tokens_of(corpus.document(document)) / 2;
  return sum;
}

double held_out(const TopicModel& model, const Corpus& corpus) {
  const TopicShares shares(model);
  double sum = 0;
  for (int64_t document = 0; document < corpus.documents(); ++document) {
    const Halves halves = halves_of(corpus.document(document));
    if (!halves.told.empty()) sum += shares.log_likelihood(halves.told, shares.of(halves.seen));
  }
  return sum / static_cast<double>(tokens_to_tell(corpus));
}

}  // namespace kerf::apps
