// What latent Dirichlet allocation is made of, and how it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "apps/data/sparse_entries.h"
#include "apps/lda/document_topics.h"
#include "apps/lda/own_documents.h"
#include "apps/lda/rising_logs.h"
#include "apps/lda/topic_model.h"
#include "apps/lda/topic_sampler.h"
#include "apps/lda/topic_shares.h"
#include "apps/lda/word_blocks.h"
#include "runtime/file.h"
#include "tests/support/errors.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

TEST(WordBlocks, HaveEveryWordOnceAndAboutAsManyTokens) {
  std::vector<int64_t> tokens(1000);
  for (size_t i = 0; i < 900; ++i) tokens[i] = 10'000 / static_cast<int64_t>(i + 1);
  const int64_t all = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
  const WordBlocks blocks = divided_words(tokens, 6, 4);
  ASSERT_EQ(blocks.blocks(), 6);
  std::vector<int> seen(tokens.size());
  for (int block = 0; block < 6; ++block) {
    int64_t here = 0;
    for (const int32_t word : blocks.words(block)) {
      ++seen[static_cast<size_t>(word)];
      here += tokens[static_cast<size_t>(word)];
    }
    EXPECT_NEAR(static_cast<double>(here), static_cast<double>(all) / 6,
                0.01 * static_cast<double>(all));
    EXPECT_LE(blocks.size(block), blocks.largest());
    EXPECT_FALSE(std::is_sorted(blocks.words(block).begin(), blocks.words(block).end()));
  }
  EXPECT_THAT(seen, testing::Each(1));
  EXPECT_EQ(divided_words(tokens, 6, 4).order, blocks.order);
  EXPECT_NE(divided_words(tokens, 6, 5).order, blocks.order);
}

TEST(SampleOfDocuments, HasTheGivenWordsAlone) {
  for (const std::vector<int32_t>& words : {std::vector<int32_t>{5}, {9, 2, 40}}) {
    const Corpus sample = sample_of_documents(words);
    ASSERT_GT(sample.documents(), 1);
    std::map<int32_t, int> counts;
    int64_t tokens = 0;
    for (int64_t document = 0; document < sample.documents(); ++document) {
      EXPECT_FALSE(sample.document(document).empty());
      for (const WordCount& each : sample.document(document)) counts[each.word] += each.count;
      tokens += std::ssize(sample.document(document));
    }
    EXPECT_EQ(tokens, std::ssize(sample.entries));
    ASSERT_EQ(counts.size(), words.size());
    for (const int32_t word : words)
      EXPECT_NEAR(counts[word], static_cast<double>(tokens) / static_cast<double>(words.size()),
                  0.1 * static_cast<double>(tokens));
  }
}

TEST(RisingLogs, AreDifferencesOfTheLogarithmOfGamma) {
  for (const double first : {1e-6, 0.01, 0.1, 1.0, 5.0, 100.0, 1e6}) {
    const RisingLogs logs(first);
    for (const int64_t n : {0, 1, 2, 10, 4095, 4096, 4097, 100'000, 2'147'483'647}) {
      const double expected = std::lgamma(first + static_cast<double>(n)) - std::lgamma(first);
      EXPECT_NEAR(logs.of(n), expected, 1e-12 * (std::abs(std::lgamma(first)) + std::abs(expected)))
          << first << " " << n;
    }
  }
}

TEST(DocumentTopics, AreCounts) {
  std::mt19937_64 random(6);
  const std::vector<int64_t> lengths = {40, 0, 1, 16, 100};
  constexpr int kTopics = 23;
  DocumentTopics documents(lengths, kTopics);
  std::vector<std::map<int32_t, int32_t>> expected(lengths.size());
  std::vector<std::vector<int32_t>> tokens(lengths.size());
  for (int i = 0; i < 5000; ++i) {
    const auto d = random() % lengths.size();
    if (!tokens[d].empty() && (random() % 2 == 0 || std::ssize(tokens[d]) == lengths[d])) {
      std::swap(tokens[d][random() % tokens[d].size()], tokens[d].back());
      documents.take(static_cast<int64_t>(d), tokens[d].back());
      if (--expected[d][tokens[d].back()] == 0) expected[d].erase(tokens[d].back());
      tokens[d].pop_back();
    } else if (lengths[d] > 0) {
      tokens[d].push_back(static_cast<int32_t>(random() % kTopics));
      documents.add(static_cast<int64_t>(d), tokens[d].back());
      ++expected[d][tokens[d].back()];
    }
    std::map<int32_t, int32_t> found;
    const auto topics = documents.topics(static_cast<int64_t>(d));
    for (size_t k = 0; k < topics.size(); ++k)
      found[topics[k]] = documents.counts(static_cast<int64_t>(d))[k];
    ASSERT_EQ(found, expected[d]);
    for (int64_t k = std::ssize(topics); k < whole_lanes(std::ssize(topics)); ++k)
      ASSERT_EQ(documents.count_lanes(static_cast<int64_t>(d))[k], 0) << "a free place counts";
  }
}

// ---- the sampler

// Tokens of one word, with all counts that their topics follow from.
struct Scene {
  static constexpr double kAlpha = 0.3, kBeta = 0.07;
  static constexpr int64_t kWords = 50;

  Scene(int count, uint64_t seed);
  // n_dk, n_wk and n_k without the last token, and what follows from them for it.
  std::vector<double> formula() const;

  int topics;
  std::mt19937_64 random;
  std::vector<int32_t> row, totals;
  std::vector<std::vector<int32_t>> other;  // topics of the documents' other tokens
  std::vector<Token> tokens;
};

Scene::Scene(int count, uint64_t seed)
    : topics(count), random(seed), row(static_cast<size_t>(whole_lanes(count))), totals(row) {
  const auto topic = [&] {
    const auto of = static_cast<uint64_t>(topics);
    return static_cast<int32_t>(std::min(random() % of, random() % of));
  };
  for (int i = 0; i < 8; ++i) tokens.push_back({static_cast<int32_t>(random() % 3), topic()});
  if (seed % 2 == 0) tokens.back().topic = 0;
  other.resize(3);
  for (auto& document : other)
    for (auto left = random() % 40; left > 0; --left) document.push_back(topic());
  for (const Token& each : tokens) ++row[static_cast<size_t>(each.topic)];
  for (int i = 0; i < 30; ++i) ++row[static_cast<size_t>(topic())];
  totals = row;
  for (const auto& document : other)
    for (const int32_t each : document) ++totals[static_cast<size_t>(each)];
  for (int i = 0; i < 20 * topics; ++i) ++totals[static_cast<size_t>(topic())];
}

std::vector<double> Scene::formula() const {
  const Token last = tokens.back();
  std::vector<int> of_document(static_cast<size_t>(topics));
  for (const int32_t each : other[static_cast<size_t>(last.document)])
    ++of_document[static_cast<size_t>(each)];
  for (const Token& each : tokens)
    if (each.document == last.document) ++of_document[static_cast<size_t>(each.topic)];
  std::vector<double> weights;
  for (int k = 0; k < topics; ++k) {
    const int here = k == last.topic ? 1 : 0;
    const auto i = static_cast<size_t>(k);
    weights.push_back((of_document[i] - here + kAlpha) * (row[i] - here + kBeta) /
                      (totals[i] - here + kBeta * static_cast<double>(kWords)));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& each : weights) each /= sum;
  return weights;
}

class Sampler : public testing::TestWithParam<int> {};

// The last token's topic as a function of its random number alone: how much of [0, 1) leads to a
// topic is that topic's probability. Those before it have moved then.
TEST_P(Sampler, DrawsByTheFormula) {
  constexpr int kPoints = 20'000;
  for (const int topics : {1, 2, 5, 16, 17, 100, 300}) {
    const Scene begin(topics, static_cast<uint64_t>(GetParam()));
    std::vector<int64_t> lengths;
    for (const auto& each : begin.other) lengths.push_back(std::ssize(each) + 9);
    DocumentTopics first(lengths, topics);
    for (int64_t d = 0; d < first.documents(); ++d) {
      first.add(d, topics - 1);  // it leaves a free place, where another topic was
      for (const int32_t each : begin.other[static_cast<size_t>(d)]) first.add(d, each);
    }
    for (const Token& each : begin.tokens) first.add(each.document, each.topic);
    for (int64_t d = 0; d < first.documents(); ++d) first.take(d, topics - 1);
    TopicSampler sampler(topics, Scene::kWords, Scene::kAlpha, Scene::kBeta);
    std::vector<float> uniforms;
    for (size_t i = 0; i < begin.tokens.size(); ++i)
      uniforms.push_back(static_cast<float>(begin.totals[0] * (i + 1) % 97) / 97);
    std::vector<int> found(static_cast<size_t>(topics));
    std::vector<double> expected;
    for (int point = 0; point < kPoints; ++point) {
      Scene scene = begin;
      DocumentTopics documents = first;
      uniforms.back() = (static_cast<float>(point) + 0.5F) / kPoints;
      sampler.set_totals(scene.totals);
      const int32_t before = scene.tokens.back().topic;
      sampler.draw(scene.tokens, uniforms, scene.row, documents);
      const int32_t now = scene.tokens.back().topic;
      ASSERT_TRUE(now >= 0 && now < topics);
      ++found[static_cast<size_t>(now)];
      if (point > 0) continue;
      // As it was before the last draw.
      scene.totals.assign(sampler.totals().begin(), sampler.totals().end());
      --scene.row[static_cast<size_t>(now)];
      --scene.totals[static_cast<size_t>(now)];
      ++scene.row[static_cast<size_t>(before)];
      ++scene.totals[static_cast<size_t>(before)];
      scene.tokens.back().topic = before;
      expected = scene.formula();
    }
    for (int k = 0; k < topics; ++k)
      EXPECT_NEAR(static_cast<double>(found[static_cast<size_t>(k)]) / kPoints,
                  expected[static_cast<size_t>(k)], 3.0 / kPoints)
          << "topic " << k << " of " << topics;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Sampler, tests::seeds(1, 5));

// ---- models

TopicModel random_model(int topics, int words, uint64_t seed) {
  std::mt19937_64 random(seed);
  TopicModel model;
  model.alpha = 0.25;
  model.beta = 1.0 / 3;
  SparseEntries entries;
  for (int word = 0; word < words; ++word)
    for (int topic = 0; topic < topics; ++topic)
      if (random() % 3 == 0) entries.add(topic, word, static_cast<double>(1 + random() % 9));
  model.counts = std::move(entries).in_columns(topics, words);
  return model;
}

class TopicModelFolder : public testing::Test {
 protected:
  void expect_refused(const std::string& file, const std::string& text, const std::string& where,
                      const std::string& why) {
    const std::string before = runtime::read_file(folder_ / file);
    runtime::write_file_atomic(folder_ / file, text);
    const auto error = tests::error_of([&] { read_topic_model(folder_.path()); });
    ASSERT_TRUE(error) << why;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->where(), testing::EndsWith(where));
    EXPECT_THAT(error->message(), testing::HasSubstr(why));
    runtime::write_file_atomic(folder_ / file, before);
  }
  static std::string lines(const std::string& topics, const std::string& tokens,
                           const std::string& beta) {
    return format("kerf lda: x\ntopics {}\nwords 2\ntokens {}\nalpha 0.5\nbeta {}\n", topics,
                  tokens, beta);
  }

  tests::TemporaryFolder folder_;
};

TEST_F(TopicModelFolder, ComesBackAsItWasWritten) {
  for (const bool named : {true, false}) {
    TopicModel model = random_model(7, 40, 3);
    for (int word = 0; word < 40 && named; ++word)
      model.vocabulary.push_back(format("word{}", word));
    write_topic_model(folder_.path(), model);
    const TopicModel found = read_topic_model(folder_.path());
    EXPECT_EQ(found.counts, model.counts);
    EXPECT_EQ(found.vocabulary, model.vocabulary);
    EXPECT_EQ(std::pair(found.alpha, found.beta), std::pair(model.alpha, model.beta));
  }
}

TEST_F(TopicModelFolder, WhatContradictsItselfIsRefused) {
  TopicModel model;
  model.alpha = model.beta = 0.5;
  model.counts = {3, 2, {0, 2, 3}, {0, 2, 1}, {4, 1, 2}};
  model.vocabulary = {"a", "b"};
  write_topic_model(folder_.path(), model);
  EXPECT_EQ(runtime::read_file(folder_ / "topics.txt"), "0 4 a\n1 2 b\n2 1 a\n");
  const std::string market = "%%MatrixMarket matrix coordinate real general\n";
  expect_refused("model.txt", "kerf mf: x\n", "model.txt:1", "it is no topic model");
  expect_refused("model.txt", "", "model.txt:1", "it is no topic model");
  expect_refused("model.txt", lines("0", "7", "1"), "model.txt:2", "a number from 1");
  expect_refused("model.txt", lines("3 3", "7", "1"), "model.txt:2", "a number from 1");
  expect_refused("model.txt", lines("3", "7", "nan"), "model.txt:6", "found 'nan'");
  expect_refused("model.txt", lines("3", "7", "-1"), "model.txt:6", "found '-1'");
  expect_refused("model.txt", "kerf lda: x\nwords 2\n", "model.txt:2", "'topics' and a number");
  expect_refused("model.txt", lines("3", "7", "1") + "more\n", "model.txt:7", "nothing behind");
  expect_refused("model.txt", lines("4", "7", "1"), "counts.mtx", "it is 2 x 3; model.txt says");
  expect_refused("model.txt", lines("3", "8", "1"), "counts.mtx", "add up to 7");
  expect_refused("counts.mtx", market + "2 3 2\n1 1 6\n2 1 0.5\n", "counts.mtx", "0.5 is no count");
  expect_refused("counts.mtx", market + "2 3 2\n1 1 8\n2 1 -1\n", "counts.mtx", "-1 is no count");
  expect_refused("counts.mtx", market + "2 3 2\n1 1 7\n", "counts.mtx:3", "it ends after 1");
  expect_refused("words.txt", "a\n", "words.txt", "it has 1 words; model.txt says 2");
}

TEST(CommonestWords, ComeFirst) {
  TopicModel model;
  model.counts = {1, 4, {0, 1, 2, 2, 3}, {0, 0, 0}, {2, 5, 2}};
  EXPECT_EQ(commonest_words(model, 9), (std::vector<std::vector<int64_t>>{{1, 0, 3}}));
  EXPECT_EQ(commonest_words(model, 2), (std::vector<std::vector<int64_t>>{{1, 0}}));
}

// ---- documents that were not learned from

double probability(const TopicModel& model, int64_t word, size_t topic) {
  double count = 0;
  for (size_t i = 0; i < model.counts.rows_of(word).size(); ++i)
    if (model.counts.rows_of(word)[i] == static_cast<int32_t>(topic))
      count = model.counts.values_of(word)[i];
  return (count + model.beta) / (static_cast<double>(model.topic_tokens()[topic]) +
                                 model.beta * static_cast<double>(model.words()));
}

TEST(TopicShares, AreTheFixedPoint) {
  const TopicModel model = random_model(9, 30, 5);
  const std::vector<WordCount> document = {{3, 2}, {17, 1}, {4, 5}, {29, 1}};
  const std::vector<double> shares = TopicShares(model).of(document);
  double likelihood = 0;
  std::vector<double> next(9, model.alpha);
  for (const WordCount& each : document) {
    double mixed = 0;
    for (size_t k = 0; k < 9; ++k) mixed += shares[k] * probability(model, each.word, k);
    for (size_t k = 0; k < 9; ++k)
      next[k] += each.count * shares[k] * probability(model, each.word, k) / mixed;
    likelihood += each.count * std::log(mixed);
  }
  for (size_t k = 0; k < 9; ++k) EXPECT_NEAR(shares[k], next[k] / (9 * model.alpha + 9), 1e-5);
  EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-9);
  EXPECT_NEAR(TopicShares(model).log_likelihood(document, shares), likelihood, 1e-9);
}

TEST(TopicShares, OfNothingAreEqual) {
  EXPECT_THAT(TopicShares(random_model(4, 5, 2)).of({}),
              testing::Each(testing::DoubleNear(0.25, 1e-12)));
}

// Of two topics that share no word, a document of the words of one has that one.
TEST(TopicShares, TellTopicsApart) {
  TopicModel model;
  model.alpha = 0.1;
  model.beta = 0.01;
  model.counts = {2, 4, {0, 1, 2, 3, 4}, {0, 0, 1, 1}, {50, 50, 50, 50}};
  EXPECT_GT(TopicShares(model).of(std::vector<WordCount>{{0, 3}, {1, 4}})[0], 0.95);
  EXPECT_GT(TopicShares(model).of(std::vector<WordCount>{{2, 3}, {3, 4}})[1], 0.95);
}

// Every other token is told by those before and behind it: 0 . 0 | . 3 | 4 in the first document.
TEST(HeldOut, IsOfEveryOtherToken) {
  const TopicModel model = random_model(3, 10, 8);
  Corpus corpus;
  corpus.entries = {{0, 3}, {3, 2}, {4, 1}, {9, 1}, {2, 2}};
  corpus.begins = {0, 3, 4, 4, 5};
  EXPECT_EQ(tokens_to_tell(corpus), 3 + 0 + 0 + 1);
  const TopicShares shares(model);
  const auto told = [&](const std::vector<WordCount>& seen, const std::vector<WordCount>& other) {
    return shares.log_likelihood(other, shares.of(seen));
  };
  const double expected =
      told({{0, 2}, {3, 1}}, {{0, 1}, {3, 1}, {4, 1}}) + told({{2, 1}}, {{2, 1}});
  EXPECT_NEAR(held_out(model, corpus), expected / 4, 1e-12);
}

// ---- how it is told

}  // namespace
}  // namespace kerf::apps
