// Collapsed Gibbs sampling of topics (Griffiths and Steyvers, PNAS 2004), word by word in the
// manner of F+LDA (Yu, Hsieh, Yun, Vishwanathan and Dhillon: "A scalable asynchronous distributed
// algorithm for topic modeling", WWW 2015). A token of word w in document d gets topic k with a
// probability in proportion to
//
//   (n_dk + alpha) q_k,   q_k = (n_wk + beta) / (n_k + V beta)
//
// where counts are without the token: n_dk of the document, n_wk of the word, n_k of the topic, V
// words. It is drawn from the sum of two parts:
//
//   n_dk q_k     over the few topics that the document has
//   alpha q_k    over all: q lies in vectors, beside the sum of each
//
// A draw reads the document's topics; q is made once for all tokens of a word, and two vectors of
// it anew where a token changes its topic. Sums are of single precision, in an order that does not
// depend on the processor: a probability is the formula's but for about 1e-6.
//
// One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/lda/document_topics.h"

namespace kerf::apps {

struct Token {
  int32_t document = 0;
  int32_t topic = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(document, topic);
  }
};

class TopicSampler {
 public:
  // alpha, beta: above 0.
  TopicSampler(int topics, int64_t words, double alpha, double beta);

  // n_k, as far as it is known; whole_lanes(topics) of them.
  void set_totals(std::span<const int32_t> totals);
  std::span<const int32_t> totals() const { return totals_; }

  // The topic of each token of a word anew, one after the other. row: n_wk, like totals;
  // documents: n_dk; uniforms: as many as tokens, in [0, 1).
  void draw(std::span<Token> tokens, std::span<const float> uniforms, std::span<int32_t> row,
            DocumentTopics& documents);

 private:
  int topics_;
  float alpha_, beta_, beta_of_all_;
  std::vector<int32_t> totals_;
  std::vector<float> inverses_;  // 1 / (n_k + V beta); 0 behind the last topic
  std::vector<float> weights_;   // q_k
  std::vector<float> sums_;      // of each vector of them; zeros behind, up to whole vectors
  std::vector<float> shares_;    // n_dk q_k, beside the document's topics
};

}  // namespace kerf::apps
