// Latent Dirichlet allocation over workers of one process, beside a plain loop.
#include "apps/lda/lda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/lda/lda_worker.h"
#include "schedmp/scheduler.h"
#include "tests/apps/planted_topics.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

class Topics : public testing::Test {
 protected:
  Topics() {
    write(tests::planted_topics(kPlanted, kWords, 120, 40, 3));
    options_.topics = kPlanted;
    options_.alpha = 0.3;
    options_.beta = 0.05;
    options_.iterations = 12;
  }
  void write(std::vector<std::vector<int32_t>> corpus) {
    corpus_ = std::move(corpus);
    tests::write_corpus(folder_ / "corpus.txt", corpus_);
    options_.corpus = folder_ / "corpus.txt";
    tokens_ = count_tokens(FileBytes(options_.corpus), kWords);
  }

  template <class Half = LdaWorker>
  std::unique_ptr<Lda> fitted(int workers) const {
    auto program = std::make_unique<Lda>(options_, tokens_, workers);
    const auto crew = tests::inproc_crew(workers, {{"lda", schedmp::worker_half<Half>}});
    schedmp::run(*program, *crew);
    crew->stop();
    return program;
  }
  void expect_every_token(const TopicModel& model) const {
    ASSERT_EQ(model.words(), kWords);
    for (int64_t word = 0; word < kWords; ++word) {
      const auto counts = model.counts.values_of(word);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0),
                static_cast<double>(tokens_.of_words[static_cast<size_t>(word)]))
          << "word " << word;
    }
  }
  // Mean over three seeds.
  double mean_likelihood(int workers) {
    double sum = 0;
    for (options_.seed = 1; options_.seed <= 3; ++options_.seed)
      sum += fitted(workers)->points().back().values[Lda::kLogLikelihood].value() / 3;
    return sum;
  }

  static constexpr int kPlanted = 4, kWords = 60;
  std::vector<std::vector<int32_t>> corpus_;
  tests::TemporaryFolder folder_;
  LdaOptions options_;
  TokenCounts tokens_;
};

// ---- the same as one loop, in distribution

// Collapsed Gibbs sampling as the formula has it: token by token, all topics, sums of doubles.
class PlainGibbs {
 public:
  PlainGibbs(const std::vector<std::vector<int32_t>>& corpus, const LdaOptions& options, int words)
      : corpus_(corpus),
        options_(options),
        topics_(static_cast<size_t>(options.topics)),
        words_(words),
        random_(options.seed),
        of_words_(static_cast<size_t>(words), std::vector<int>(topics_)),
        of_documents_(corpus.size(), std::vector<int>(topics_)),
        of_topics_(topics_) {
    for (size_t d = 0; d < corpus.size(); ++d)
      for (const int32_t word : corpus[d]) {
        assigned_.push_back(random_() % topics_);
        change(d, word, assigned_.back(), 1);
      }
  }

  void sweep() {
    size_t token = 0;
    std::vector<double> weights(topics_);
    for (size_t d = 0; d < corpus_.size(); ++d)
      for (const int32_t word : corpus_[d]) {
        size_t& topic = assigned_[token++];
        change(d, word, topic, -1);
        for (size_t k = 0; k < topics_; ++k)
          weights[k] = (of_documents_[d][k] + options_.alpha) *
                       (of_words_[static_cast<size_t>(word)][k] + options_.beta) /
                       (of_topics_[k] + words_ * options_.beta);
        topic = static_cast<size_t>(
            std::discrete_distribution<int>(weights.begin(), weights.end())(random_));
        change(d, word, topic, 1);
      }
  }

  // As lda.h has it.
  double log_likelihood() const {
    const auto rises = [](double n, double c) { return std::lgamma(n + c) - std::lgamma(c); };
    double sum = 0;
    for (const int count : of_topics_) sum -= rises(count, words_ * options_.beta);
    for (const auto& row : of_words_)
      for (const int count : row) sum += rises(count, options_.beta);
    for (size_t d = 0; d < corpus_.size(); ++d) {
      sum -= rises(static_cast<double>(corpus_[d].size()), options_.topics * options_.alpha);
      for (const int count : of_documents_[d]) sum += rises(count, options_.alpha);
    }
    return sum;
  }

 private:
  void change(size_t d, int32_t word, size_t topic, int by) {
    of_documents_[d][topic] += by;
    of_words_[static_cast<size_t>(word)][topic] += by;
    of_topics_[topic] += by;
  }

  const std::vector<std::vector<int32_t>>& corpus_;
  LdaOptions options_;
  size_t topics_;
  int words_;
  std::mt19937_64 random_;
  std::vector<std::vector<int>> of_words_, of_documents_;
  std::vector<int> of_topics_;
  std::vector<size_t> assigned_;
};

TEST_F(Topics, ComesToTheLikelihoodOfAPlainLoop) {
  write(tests::planted_topics(kPlanted, kWords, 400, 60, 3));
  options_.iterations = 60;
  double expected = 0, first = 0;
  for (options_.seed = 1; options_.seed <= 3; ++options_.seed) {
    PlainGibbs plain(corpus_, options_, kWords);
    first += plain.log_likelihood() / 3;
    for (int64_t i = 0; i < options_.iterations; ++i) plain.sweep();
    expected += plain.log_likelihood() / 3;
  }
  ASSERT_GT(expected, first * 0.9) << "it learned something";
  for (const int workers : {1, 2, 3})
    EXPECT_NEAR(mean_likelihood(workers), expected, 0.005 * -expected) << workers << " workers";
  options_.seed = 1;
  EXPECT_NEAR(fitted(2)->points().front().values[Lda::kLogLikelihood].value(), first,
              0.005 * -first);
}

// With one topic there is nothing to draw, and the likelihood follows from the corpus.
TEST_F(Topics, SaysTheLikelihoodExactly) {
  options_.topics = 1;
  options_.iterations = 2;
  const double expected = PlainGibbs(corpus_, options_, kWords).log_likelihood();
  for (const int workers : {1, 3}) {
    const auto program = fitted(workers);
    ASSERT_EQ(program->points().size(), 3);
    for (const HistoryPoint& point : program->points()) {
      const double all = point.values[Lda::kLogLikelihood].value();
      EXPECT_NEAR(all, expected, 1e-9 * -expected);
      EXPECT_EQ(point.values[Lda::kPerToken], all / static_cast<double>(tokens_.all));
    }
  }
}

// ---- what never changes

TEST_F(Topics, KeepsEveryTokenOfEveryWord) {
  for (const int topics : {3, 16, 17, 70})
    for (const int workers : {1, 2, 3, 5})
      for (const int blocks : {1, 2, 4}) {
        options_.topics = topics;
        options_.blocks_per_worker = blocks;
        options_.iterations = 3;
        SCOPED_TRACE(testing::Message() << workers << " workers, " << blocks << " blocks each");
        const auto program = fitted(workers);
        ASSERT_EQ(program->model().topics(), topics);
        expect_every_token(program->model());
      }
}

// The first worker takes ten microseconds more for each token.
class SlowLdaWorker final : public LdaWorker {
 public:
  void start(runtime::Workplace& workplace, const LdaJob& job) override {
    slow_ = workplace.worker == 0;
    LdaWorker::start(workplace, job);
  }

 private:
  void sweep(const Block& block, int64_t number) override {
    const auto begin = std::chrono::steady_clock::now();
    LdaWorker::sweep(block, number);
    if (!slow_) return;
    // Also where sanitizers have all take long.
    const auto took = std::chrono::steady_clock::now() - begin;
    std::this_thread::sleep_for(std::max<std::chrono::nanoseconds>(
        10 * took, std::chrono::microseconds(10 * own_tokens(block))));
  }
  bool slow_ = false;
};

TEST_F(Topics, KeepsEveryTokenWhereSpeedsDivideTheDocuments) {
  options_.balance = true;
  options_.iterations = 3;
  for (const int workers : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << workers << " workers");
    const auto program = fitted<SlowLdaWorker>(workers);
    const std::vector<int64_t> documents = program->documents_of_workers();
    ASSERT_EQ(std::ssize(documents), workers);
    EXPECT_EQ(std::accumulate(documents.begin(), documents.end(), int64_t{0}), std::ssize(corpus_));
    EXPECT_THAT(documents, testing::Each(testing::Ge(1)));
    EXPECT_LE(documents[0], std::ssize(corpus_) / (workers == 1 ? 1 : 2 * workers))
        << "it is far slower";
    expect_every_token(program->model());
  }
}

// Ends where the light goes out: before this round.
class EndingLda final : public Lda {
 public:
  EndingLda(const LdaOptions& options, const TokenCounts& tokens, int workers, int64_t end)
      : Lda(options, tokens, workers), end_(end) {}
  Decision schedule(int64_t round) override {
    if (round == end_) throw Error(ErrorCode::kUnavailable, "the light went out");
    return Lda::schedule(round);
  }

 private:
  int64_t end_;
};

// Behind measuring, behind reading, behind sweeps: what goes on measures nothing, and reads again.
TEST_F(Topics, GoOnWithTheDivisionOfTheirSnapshot) {
  constexpr int kWorkers = 3;
  options_.balance = true;
  options_.iterations = 5;
  for (const int64_t end : {1, 2, 4}) {
    SCOPED_TRACE(testing::Message() << "round " << end);
    const auto folder = folder_ / ("kept-" + std::to_string(end));
    std::filesystem::create_directory(folder);
    EndingLda ended(options_, tokens_, kWorkers, end);
    const auto slow = tests::inproc_crew(kWorkers, {{"lda", schedmp::worker_half<SlowLdaWorker>}});
    EXPECT_TRUE(tests::error_of(
        [&] { schedmp::run(ended, *slow, {.snapshots = {.folder = folder, .every = 1}}); }));
    slow->stop();
    Lda program(options_, tokens_, kWorkers);
    const auto crew = tests::inproc_crew(kWorkers, {{"lda", schedmp::worker_half<LdaWorker>}});
    schedmp::run(program, *crew, {.snapshots = {.resume = folder}});
    crew->stop();
    EXPECT_EQ(program.documents_of_workers(), ended.documents_of_workers());
    EXPECT_LE(program.documents_of_workers()[0], std::ssize(corpus_) / (2 * kWorkers));
    EXPECT_EQ(program.points().back().rounds, options_.iterations);
    expect_every_token(program.model());
  }
}

TEST_F(Topics, ATokenThatIsLostEndsIt) {
  for (const bool document : {true, false}) {
    Lda program(options_, tokens_, 1);
    LdaResult look;
    look.topics_of_documents.assign(kPlanted, 0);
    look.topics_of_documents[1] = static_cast<int32_t>(tokens_.all) - (document ? 1 : 0);
    look.topics_of_words = look.topics_of_documents;
    if (!document) std::swap(look.topics_of_words[0], look.topics_of_words[1]);
    program.schedule(0);
    program.aggregate(0, {{}});
    program.schedule(1);
    const auto error = tests::error_of([&] { program.aggregate(1, {{.payload = look}}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kInternal);
    EXPECT_THAT(error->message(), testing::HasSubstr("tokens were lost in iteration 0"));
  }
}

TEST_F(Topics, RepeatsItself) {
  for (const int workers : {1, 3}) {
    const auto once = fitted(workers), again = fitted(workers);
    EXPECT_EQ(once->model().counts, again->model().counts);
    EXPECT_EQ(once->points().back().values[Lda::kLogLikelihood].value(),
              again->points().back().values[Lda::kLogLikelihood].value());
    ++options_.seed;
    EXPECT_NE(once->model().counts, fitted(workers)->model().counts);
  }
}

// ---- what it finds

// A topic found for each that was planted: most of its tokens are of the planted one's words, and
// most tokens of these have it.
TEST_F(Topics, FindsWhatWasPlanted) {
  options_.iterations = 80;
  for (const int workers : {1, 2, 3}) {
    const auto program = fitted(workers);
    std::vector<std::vector<double>> both(kPlanted, std::vector<double>(kPlanted));
    for (int64_t word = 0; word < kWords; ++word)
      for (size_t i = 0; i < program->model().counts.rows_of(word).size(); ++i)
        both[static_cast<size_t>(word * kPlanted / kWords)]
            [static_cast<size_t>(program->model().counts.rows_of(word)[i])] +=
            program->model().counts.values_of(word)[i];
    for (size_t planted = 0; planted < both.size(); ++planted) {
      const auto& row = both[planted];
      const auto found =
          static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      double of_found = 0;
      for (const auto& each : both) of_found += each[found];
      EXPECT_GT(row[found], 0.9 * std::accumulate(row.begin(), row.end(), 0.0));
      EXPECT_GT(row[found], 0.9 * of_found);
    }
    const auto& points = program->points();
    ASSERT_EQ(points.size(), 81);
    EXPECT_GT(points.back().values[Lda::kLogLikelihood].value(),
              0.9 * points.front().values[Lda::kLogLikelihood].value());
    EXPECT_EQ(points.back().rounds, 80);
    EXPECT_EQ(points.back().updates, 80 * tokens_.all);
    for (size_t i = 1; i < points.size(); ++i) EXPECT_GE(points[i].seconds, points[i - 1].seconds);
  }
}

TEST_F(Topics, EndsWhenItsTimeIsOver) {
  options_.iterations = 1'000'000;
  options_.most_seconds = 0.05;
  const auto program = fitted(2);
  EXPECT_LT(program->points().back().rounds, 1'000'000);
  EXPECT_GE(program->points().back().seconds, 0.05);
}

TEST_F(Topics, TakesDocumentsWithoutWordsAndWordsWithoutDocuments) {
  write({{}, {7, 7, 9}, {}, {}, {7}});
  for (const int workers : {1, 2, 5}) {
    const auto program = fitted(workers);
    EXPECT_EQ(program->model().words(), kWords);
    EXPECT_EQ(program->model().counts.entries(),
              std::ssize(program->model().counts.rows_of(7)) + 1);
    EXPECT_TRUE(std::isfinite(program->points().back().values[Lda::kLogLikelihood].value()));
  }
}

TEST_F(Topics, AFileThatChangedIsRefused) {
  tests::write_corpus(folder_ / "corpus.txt", {{1, 2, 3}});
  const auto error = tests::error_of([&] { fitted(2); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), testing::HasSubstr("another corpus than the scheduler's"));
}

}  // namespace
}  // namespace kerf::apps
