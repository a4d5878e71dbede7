#include "apps/lda/lda.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "apps/lda/lda_worker.h"
#include "runtime/error.h"
#include "schedmp/variables/load_balancer.h"
#include "schedmp/variables/travelling_blocks.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostCountsTold = 60'000;  // in a message

}  // namespace

Lda::Lda(const LdaOptions& options, const TokenCounts& tokens, int workers)
    : options_(options),
      workers_(workers),
      tokens_(tokens.all),
      tokens_of_documents_(tokens.of_documents),
      blocks_(divided_words(tokens.of_words, workers * options.blocks_per_worker, options.seed)),
      logs_of_totals_(options.beta * static_cast<double>(tokens.of_words.size())),
      phase_(options.balance ? Phase::kPace : Phase::kRead),
      history_(
          "iteration",
          {{"log_likelihood", "log-likelihood", 8}, {"log_likelihood_per_token", "per token", 6}},
          {options.iterations, options.most_seconds}) {
  KERF_CHECK(options.topics >= 1 && options.alpha > 0 && options.beta > 0 &&
             options.iterations >= 1 && options.blocks_per_worker >= 1);
  if (!options.balance) borders_ = schedmp::LoadBalancer(workers).borders(tokens_of_documents_);
}

LdaJob Lda::job(int /*worker*/) {
  return {std::filesystem::absolute(options_.corpus).string(),
          blocks_,
          options_.topics,
          options_.alpha,
          options_.beta,
          options_.seed};
}

schedmp::LaneTable Lda::lanes(int workers) const {
  const int64_t numbers = numbers_of_block(blocks_.largest(), options_.topics);
  return schedmp::lanes_of_travelling_blocks(workers, blocks_.blocks(),
                                             numbers * static_cast<int64_t>(sizeof(int32_t)));
}

Lda::Decision Lda::schedule(int64_t /*round*/) {
  if (waits()) return schedmp::Wait{};
  if (phase_ == Phase::kOver) return schedmp::Done{};
  const Phase now = phase_;
  told_.push_back(now);
  if (now != Phase::kSweeps || sweeps_ + 1 == options_.iterations)
    phase_ = static_cast<Phase>(static_cast<int>(now) + 1);
  switch (now) {
    case Phase::kPace:
      return for_all({.work = LdaWork::kPace});
    case Phase::kRead:
      return tasks_of_reading();
    case Phase::kSweeps:
      if (sweeps_ == 0) history_.begin();
      return for_all({.work = LdaWork::kSweep, .sweep = ++sweeps_});
    case Phase::kLook:
      return for_all({.work = LdaWork::kLook});
    default:
      return tasks_of_rows();
  }
}

bool Lda::waits() const {
  if (phase_ == Phase::kRead) return borders_.empty();
  return phase_ > Phase::kRead && !counted_;
}

std::vector<Lda::Task> Lda::for_all(const LdaTask& task) const {
  std::vector<Task> tasks;
  for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, task});
  return tasks;
}

std::vector<Lda::Task> Lda::tasks_of_reading() const {
  std::vector<Task> tasks = for_all({.work = LdaWork::kRead});
  for (size_t worker = 0; worker < tasks.size(); ++worker) {
    LdaTask& task = tasks[worker].payload;
    task.first = borders_[worker];
    task.count = borders_[worker + 1] - borders_[worker];
    const auto first = tokens_of_documents_.begin() + task.first;
    task.tokens = std::accumulate(first, first + task.count, int64_t{0});
  }
  return tasks;
}

std::vector<int64_t> Lda::documents_of_workers() const {
  std::vector<int64_t> documents;
  for (const Task& each : tasks_of_reading()) documents.push_back(each.payload.count);
  return documents;
}

std::vector<Lda::Task> Lda::tasks_of_rows() const {
  std::vector<Task> tasks;
  const int64_t most = std::max<int64_t>(1, kMostCountsTold / options_.topics);
  for (int block = 0; block < blocks_.blocks(); ++block)
    for (int64_t first = 0; first < blocks_.size(block); first += most)
      tasks.push_back({block / options_.blocks_per_worker,
                       {.work = LdaWork::kRows,
                        .first = first,
                        .count = std::min(most, blocks_.size(block) - first),
                        .place = block % options_.blocks_per_worker}});
  return tasks;
}

void Lda::aggregate(int64_t round, std::vector<Result> results) {
  switch (told_[static_cast<size_t>(round)]) {
    case Phase::kPace:
      return take_pace(results);
    case Phase::kRead:
      counted_ = true;
      return;
    case Phase::kRows:
      return take_rows(results);
    default:
      return take_look(results);
  }
}

void Lda::take_pace(const std::vector<Result>& results) {
  schedmp::LoadBalancer balancer(workers_);
  for (const Result& each : results) balancer.measured(each.worker, 1, each.payload.seconds);
  borders_ = balancer.borders(tokens_of_documents_);
}

// What a sweep tells is how things were before it.
void Lda::take_look(const std::vector<Result>& results) {
  const auto topics = static_cast<size_t>(options_.topics);
  std::vector<int64_t> of_documents(topics), of_words(topics);
  for (const Result& each : results)
    for (size_t k = 0; k < topics; ++k) {
      of_documents[k] += each.payload.topics_of_documents[k];
      of_words[k] += each.payload.topics_of_words[k];
    }
  const auto iterations = std::ssize(history_.points());
  const int64_t sum = std::accumulate(of_documents.begin(), of_documents.end(), int64_t{0});
  KERF_CHECK(sum == tokens_ && of_documents == of_words,
             "tokens were lost in iteration {}: documents have {} of {}, and words {}", iterations,
             sum, tokens_, std::accumulate(of_words.begin(), of_words.end(), int64_t{0}));
  const double all = log_likelihood(results, of_words);
  history_.add(
      {iterations, iterations * tokens_, behind_, {all, all / static_cast<double>(tokens_)}});
  behind_ = history_.seconds();
  if (phase_ == Phase::kSweeps && history_.limit_is_reached(iterations)) phase_ = Phase::kLook;
}

double Lda::log_likelihood(const std::vector<Result>& results,
                           const std::vector<int64_t>& topics) const {
  double sum = 0;
  for (const Result& each : results) sum += each.payload.of_words + each.payload.of_documents;
  for (const int64_t tokens : topics) sum -= logs_of_totals_.of(tokens);
  return sum;
}

void Lda::take_rows(const std::vector<Result>& results) {
  SparseEntries entries;
  for (const Result& each : results) {
    const LdaResult& rows = each.payload;
    for (size_t i = 0; i < rows.words.size(); ++i)
      entries.add(rows.topics[i], rows.words[i], rows.counts[i]);
  }
  model_.alpha = options_.alpha;
  model_.beta = options_.beta;
  model_.counts = std::move(entries).in_columns(options_.topics, std::ssize(blocks_.order));
  const std::vector<int64_t> tokens = model_.topic_tokens();
  const int64_t sum = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
  KERF_CHECK(sum == tokens_, "words' counts add up to {} of {} tokens", sum, tokens_);
}

}  // namespace kerf::apps
