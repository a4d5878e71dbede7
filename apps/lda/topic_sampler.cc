#include "apps/lda/topic_sampler.h"

#include <algorithm>
#include <cstring>

#include "ops/simd/simd.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

typedef float TopicFloats __attribute__((vector_size(kTopicLanes * 4)));
typedef float HalfFloats __attribute__((vector_size(kTopicLanes * 2)));

constexpr size_t kTokensAhead = 8;  // whose documents are fetched into the cache

// What the tokens of a word are drawn with.
struct WordDraw {
  int topics = 0;
  int64_t vectors = 0;  // of topics
  float alpha = 0, beta = 0, beta_of_all = 0;
  int32_t* row = nullptr;
  int32_t* totals = nullptr;
  float* inverses = nullptr;
  float* weights = nullptr;
  float* sums = nullptr;
  float* shares = nullptr;
  DocumentTopics* documents = nullptr;
};

// Halves are added until one number is left.
[[gnu::always_inline]] inline float sum_of_lanes(const TopicFloats& lanes) {
  const HalfFloats half = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7) +
                          __builtin_shufflevector(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto quarter = __builtin_shufflevector(half, half, 0, 1, 2, 3) +
                       __builtin_shufflevector(half, half, 4, 5, 6, 7);
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

[[gnu::always_inline]] inline float sum_of_vector(const float* from) {
  TopicFloats lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return sum_of_lanes(lanes);
}

[[gnu::always_inline]] inline float sum_of_vectors(const float* from, int64_t count) {
  TopicFloats sum{};
  for (int64_t i = 0; i < count; i += kTopicLanes) {
    TopicFloats lanes;
    std::memcpy(&lanes, from + i, sizeof lanes);
    sum += lanes;
  }
  return sum_of_lanes(sum);
}

// The first place at which the sum of weights up to it is above `mass`, or the last.
[[gnu::always_inline]] inline int64_t place_of_mass(const float* weights, int64_t count,
                                                    float& mass) {
  int64_t place = 0;
  while (place + 1 < count && mass >= weights[place]) mass -= weights[place++];
  return place;
}

// All of q and its sums.
[[gnu::always_inline]] inline void weigh_topics(const WordDraw& draw) {
  for (int64_t vector = 0; vector < draw.vectors; ++vector) {
    const int64_t first = vector * kTopicLanes;
#pragma omp simd
    for (int64_t k = first; k < first + kTopicLanes; ++k)
      draw.weights[k] = (static_cast<float>(draw.row[k]) + draw.beta) * draw.inverses[k];
    draw.sums[vector] = sum_of_vector(draw.weights + first);
  }
}

// Of a topic whose counts changed.
[[gnu::always_inline]] inline void weigh_topic(const WordDraw& draw, int32_t topic) {
  const float inverse = 1 / (static_cast<float>(draw.totals[topic]) + draw.beta_of_all);
  draw.inverses[topic] = inverse;
  draw.weights[topic] = (static_cast<float>(draw.row[topic]) + draw.beta) * inverse;
}
[[gnu::always_inline]] inline float sum_around(const WordDraw& draw, int32_t topic) {
  return sum_of_vector(draw.weights + topic / kTopicLanes * kTopicLanes);
}

// n_dk q_k without a token of `topic`; their sum.
[[gnu::always_inline]] inline float weigh_document(const WordDraw& draw, int64_t document,
                                                   int32_t topic) {
  const int32_t* const topics = draw.documents->topic_lanes(document);
  const int32_t* const counts = draw.documents->count_lanes(document);
  const int64_t places = whole_lanes(draw.documents->size(document));
#pragma omp simd
  for (int64_t i = 0; i < places; ++i) {
    // A free place may still name the topic.
    const int32_t others = std::max(counts[i] - (topics[i] == topic ? 1 : 0), 0);
    draw.shares[i] = static_cast<float>(others) * draw.weights[topics[i]];
  }
  return sum_of_vectors(draw.shares, places);
}

// By q alone; `without` is where the token was, whose vector has not been summed anew.
[[gnu::always_inline]] inline int32_t topic_of_mass(const WordDraw& draw, float mass,
                                                    int32_t without) {
  float& changed = draw.sums[without / kTopicLanes];
  const float kept = changed;
  changed = sum_around(draw, without);
  const int64_t first = place_of_mass(draw.sums, draw.vectors, mass) * kTopicLanes;
  changed = kept;
  const int64_t count = std::min<int64_t>(kTopicLanes, draw.topics - first);
  return static_cast<int32_t>(first + place_of_mass(draw.weights + first, count, mass));
}

// Counts and weights after a token; returns the sum of q.
[[gnu::always_inline]] inline float move_token(const WordDraw& draw, int64_t document, int32_t from,
                                               int32_t to) {
  draw.documents->take(document, from);
  draw.documents->add(document, to);
  --draw.row[from];
  --draw.totals[from];
  ++draw.row[to];
  ++draw.totals[to];
  weigh_topic(draw, from);
  weigh_topic(draw, to);
  draw.sums[from / kTopicLanes] = sum_around(draw, from);
  draw.sums[to / kTopicLanes] = sum_around(draw, to);
  return sum_of_vectors(draw.sums, draw.vectors);
}

KERF_CLONES void draw_topics(const WordDraw draw, std::span<Token> tokens, const float* uniforms) {
  weigh_topics(draw);
  float sum = sum_of_vectors(draw.sums, draw.vectors);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i + kTokensAhead < tokens.size()) {
      const int32_t ahead = tokens[i + kTokensAhead].document;
      for (const int32_t* lanes :
           {draw.documents->topic_lanes(ahead), draw.documents->count_lanes(ahead)}) {
        __builtin_prefetch(lanes);
        __builtin_prefetch(lanes + kTopicLanes);
      }
    }
    const auto [document, before] = tokens[i];
    float& weight = draw.weights[before];
    const float with = weight;
    weight = (static_cast<float>(draw.row[before] - 1) + draw.beta) /
             (static_cast<float>(draw.totals[before] - 1) + draw.beta_of_all);
    const float of_document = weigh_document(draw, document, before);
    const float of_all = draw.alpha * (sum + (weight - with));
    float mass = uniforms[i] * (of_document + of_all);
    int32_t now = 0;
    if (mass < of_document)
      now = draw.documents->topic_lanes(
          document)[place_of_mass(draw.shares, draw.documents->size(document), mass)];
    else
      now = topic_of_mass(draw, (mass - of_document) / draw.alpha, before);
    weight = with;
    if (now == before) continue;
    tokens[i].topic = now;
    sum = move_token(draw, document, before, now);
  }
}

}  // namespace

TopicSampler::TopicSampler(int topics, int64_t words, double alpha, double beta)
    : topics_(topics),
      alpha_(static_cast<float>(alpha)),
      beta_(static_cast<float>(beta)),
      beta_of_all_(static_cast<float>(beta * static_cast<double>(words))),
      totals_(static_cast<size_t>(whole_lanes(topics))),
      inverses_(totals_.size()),
      weights_(totals_.size()),
      sums_(static_cast<size_t>(whole_lanes(std::ssize(totals_) / kTopicLanes))),
      shares_(totals_.size()) {
  KERF_CHECK(topics >= 1 && words >= 1 && alpha_ > 0 && beta_ > 0);
}

void TopicSampler::set_totals(std::span<const int32_t> totals) {
  KERF_CHECK(totals.size() == totals_.size());
  std::copy(totals.begin(), totals.end(), totals_.begin());
  for (size_t k = 0; k < static_cast<size_t>(topics_); ++k)
    inverses_[k] = 1 / (static_cast<float>(totals_[k]) + beta_of_all_);
}

void TopicSampler::draw(std::span<Token> tokens, std::span<const float> uniforms,
                        std::span<int32_t> row, DocumentTopics& documents) {
  KERF_CHECK(row.size() == totals_.size() && uniforms.size() == tokens.size());
  WordDraw draw;
  draw.topics = topics_;
  draw.vectors = std::ssize(totals_) / kTopicLanes;
  draw.alpha = alpha_;
  draw.beta = beta_;
  draw.beta_of_all = beta_of_all_;
  draw.row = row.data();
  draw.totals = totals_.data();
  draw.inverses = inverses_.data();
  draw.weights = weights_.data();
  draw.sums = sums_.data();
  draw.shares = shares_.data();
  draw.documents = &documents;
  draw_topics(draw, tokens, uniforms.data());
}

}  // namespace kerf::apps
