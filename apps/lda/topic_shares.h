// The topics of a document that was not learned from. With p_kw = (n_wk + beta) / (n_k + V beta)
// the probability of word w in topic k, its shares of topics s are the fixed point, from equal ones
// on, of
//
//   s_k = (alpha + sum over tokens of s_k p_kw / sum over j of s_j p_jw) / (K alpha + tokens)
//
// which is the most probable s under a Dirichlet prior of alpha + 1. How well a model tells what it
// has not seen is told by document completion (Wallach et al., ICML 2009): of a document's tokens,
// in the order of its line, every other one from the first is seen and gives the shares, and the
// mean over the others of
//
//   log (sum over k of s_k p_kw)
//
// is the held-out log-likelihood per token. Deterministic. Of one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/corpus.h"
#include "apps/lda/topic_model.h"

namespace kerf::apps {

class TopicShares {
 public:
  // The model outlives this.
  explicit TopicShares(const TopicModel& model);

  // Of each topic, adding up to 1. Words are of the model.
  std::vector<double> of(std::span<const WordCount> document) const;
  // The sum over its tokens of log (sum over k of s_k p_kw).
  double log_likelihood(std::span<const WordCount> document,
                        const std::vector<double>& shares) const;

 private:
  // p_kw of the document's words, a row each.
  std::vector<double> probabilities_of(std::span<const WordCount> document) const;

  const TopicModel& model_;
  std::vector<double> inverses_;  // 1 / (n_k + V beta)
};

// How many tokens of all documents there are to be told; one alone in a document is seen.
int64_t tokens_to_tell(const Corpus& corpus);
// The held-out log-likelihood per token, of one at least.
double held_out(const TopicModel& model, const Corpus& corpus);

}  // namespace kerf::apps
