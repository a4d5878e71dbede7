#include "apps/mf/mf.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/mf/factor_rows.h"
#include "apps/mf/rank_ones.h"
#include "ops/layout.h"
#include "runtime/error.h"
#include "schedmp/variables/load_balancer.h"
#include "schedmp/variables/travelling_blocks.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostNumbersTold = 200'000;  // in a message

std::string absolute_or_none(const std::string& file) {
  return file.empty() ? file : std::filesystem::absolute(file).string();
}

std::vector<int64_t> even_borders(int64_t users, int workers) {
  std::vector<int64_t> borders = {0};
  for (const ops::IndexSet& some : ops::split_evenly(users, workers))
    borders.push_back(borders.back() + some.size(users));
  return borders;
}

}  // namespace

Mf::Mf(const MfOptions& options, int workers)
    : options_(options),
      workers_(workers),
      blocks_(options.items, workers * options.blocks_per_worker, options.seed),
      phase_(options.balance ? Phase::kPace : Phase::kRead),
      history_("iteration",
               {{"objective", "objective", 8, Metric::Scale::kAboveLeast},
                {"train_rmse", "train RMSE", 5},
                {"test_rmse", "test RMSE", 5}},
               {options.iterations, options.most_seconds}) {
  KERF_CHECK(options.rank >= 1 && options.lambda >= 0 && options.step > 0 &&
             options.iterations >= 1 && options.blocks_per_worker >= 1);
  if (!options.balance) borders_ = even_borders(options.users, workers);
}

MfJob Mf::job(int /*worker*/) {
  return {absolute_or_none(options_.ratings),
          absolute_or_none(options_.test),
          options_.users,
          options_.items,
          blocks_.blocks(),
          options_.rank,
          options_.algorithm,
          options_.seed};
}

schedmp::LaneTable Mf::lanes(int workers) const {
  const int64_t numbers = blocks_.largest() * (padded(options_.rank) + kNumbersOfSums);
  return schedmp::lanes_of_travelling_blocks(workers, blocks_.blocks(),
                                             numbers * static_cast<int64_t>(sizeof(float)));
}

Mf::Decision Mf::schedule(int64_t /*round*/) {
  if (waits()) return schedmp::Wait{};
  if (phase_ == Phase::kOver) return schedmp::Done{};
  const Phase now = phase_;
  told_.push_back(now);
  if (now == Phase::kTurns && turns_ + 1 < options_.iterations) return for_all(next_turn());
  phase_ = static_cast<Phase>(static_cast<int>(now) + 1);
  if (now == Phase::kPace) return for_all({.work = MfWork::kPace});
  if (now == Phase::kRead) return tasks_of_reading();
  if (now == Phase::kTurns) return for_all(next_turn());
  if (now == Phase::kErrors) return for_all(turn(MfWork::kErrors));
  return tasks_of_rows();
}

bool Mf::waits() const {
  if (phase_ == Phase::kRead) return borders_.empty();
  return phase_ > Phase::kRead && moments_.count == 0;
}

std::vector<Mf::Task> Mf::for_all(const MfTask& task) const {
  std::vector<Task> tasks;
  for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, task});
  return tasks;
}

std::vector<Mf::Task> Mf::tasks_of_reading() const {
  std::vector<Task> tasks = for_all({.work = MfWork::kRead});
  for (size_t worker = 0; worker < tasks.size(); ++worker) {
    tasks[worker].payload.first = borders_[worker];
    tasks[worker].payload.count = borders_[worker + 1] - borders_[worker];
  }
  return tasks;
}

std::vector<int64_t> Mf::users_of_workers() const {
  std::vector<int64_t> users;
  for (const Task& each : tasks_of_reading()) users.push_back(each.payload.count);
  return users;
}

MfTask Mf::turn(MfWork work) const {
  MfTask task;
  task.work = work;
  task.mean = moments_.mean;
  task.scale = scale_;
  task.lambda = options_.lambda / scale_;
  return task;
}

MfTask Mf::next_turn() {
  if (turns_ == 0) history_.begin();
  const bool steps = options_.algorithm == MfAlgorithm::kSgd;
  MfTask task = turn(steps ? MfWork::kSteps : MfWork::kMinima);
  task.step = options_.step / (1 + options_.decay * std::pow(static_cast<double>(turns_), 1.5));
  ++turns_;
  return task;
}

std::vector<Mf::Task> Mf::tasks_of_rows() {
  std::vector<Task> tasks;
  const int64_t most = std::max<int64_t>(1, kMostNumbersTold / options_.rank);
  const auto ask = [&](int worker, int32_t place, int block, int64_t begin, int64_t rows) {
    for (int64_t first = 0; first < rows; first += most) {
      MfTask task;
      task.work = MfWork::kRows;
      task.place = place;
      task.first = first;
      task.count = std::min(most, rows - first);
      tasks.push_back({worker, task, std::ssize(asked_)});
      asked_.push_back({block, begin + first});
    }
  };
  for (int worker = 0; worker < workers_; ++worker) {
    const auto w = static_cast<size_t>(worker);
    ask(worker, -1, -1, borders_[w], borders_[w + 1] - borders_[w]);
    for (int place = 0; place < options_.blocks_per_worker; ++place) {
      const int block = worker * options_.blocks_per_worker + place;
      ask(worker, place, block, 0, blocks_.size(block));
    }
  }
  return tasks;
}

void Mf::aggregate(int64_t round, std::vector<Result> results) {
  switch (told_[static_cast<size_t>(round)]) {
    case Phase::kPace:
      return take_pace(results);
    case Phase::kRead:
      return take_moments(results);
    case Phase::kTurns:
      return take_turn(results, false);
    case Phase::kErrors:
      return take_turn(results, true);
    default:
      return take_rows(results);
  }
}

void Mf::take_pace(const std::vector<Result>& results) {
  schedmp::LoadBalancer balancer(workers_);
  for (const Result& each : results) balancer.measured(each.worker, 1, each.payload.seconds);
  borders_ = balancer.borders(std::vector<int64_t>(static_cast<size_t>(options_.users), 1));
}

void Mf::take_moments(const std::vector<Result>& results) {
  for (const Result& each : results) moments_.add(each.payload.moments);
  if (moments_.count == 0) throw Error(ErrorCode::kUsage, "it has no ratings", options_.ratings);
  const double deviation = std::sqrt(moments_.squares / static_cast<double>(moments_.count));
  if (!std::isfinite(deviation))
    throw Error(ErrorCode::kUsage, "its numbers are too large: their squares overflow",
                options_.ratings);
  scale_ = deviation > 0 ? deviation : 1;
}

void Mf::take_turn(const std::vector<Result>& results, bool last) {
  MfResult sum;
  for (const Result& each : results) {
    sum.errors += each.payload.errors;
    sum.squares += each.payload.squares;
    sum.test_errors += each.payload.test_errors;
    sum.tested += each.payload.tested;
  }
  const double objective = scale_ * (scale_ * sum.errors + options_.lambda * sum.squares);
  const auto rmse = [&](double errors, int64_t count) {
    return count > 0 ? std::optional(scale_ * std::sqrt(errors / static_cast<double>(count)))
                     : std::nullopt;
  };
  if (!last) ++iterations_;
  if (!std::isfinite(objective))
    throw Error(ErrorCode::kUsage,
                format("it diverges: iteration {} has an objective of {}; take a smaller --step, "
                       "or more --decay",
                       iterations_, objective));
  if (!last && phase_ == Phase::kTurns && ends_with(objective)) phase_ = Phase::kErrors;
  history_.add(iterations_, iterations_ * moments_.count,
               {objective, rmse(sum.errors, moments_.count), rmse(sum.test_errors, sum.tested)});
}

// The turn that is under way meanwhile is still taken.
bool Mf::ends_with(double objective) {
  if (!history_.points().empty()) {
    const double before = *history_.points().back().values[kObjective];
    converged_ = before - objective < options_.tolerance * before;
  }
  return converged_ || history_.limit_is_reached(iterations_);
}

void Mf::take_rows(const std::vector<Result>& results) {
  const auto rank = static_cast<size_t>(options_.rank);
  users_.resize(static_cast<size_t>(options_.users) * rank);
  items_.resize(static_cast<size_t>(options_.items) * rank);
  const double length = std::sqrt(scale_);
  for (const Result& each : results) {
    const Asked& asked = asked_[static_cast<size_t>(each.id)];
    const std::vector<float>& rows = each.payload.rows;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t row = asked.first + static_cast<int64_t>(i / rank);
      const int64_t to = asked.block < 0 ? row : blocks_.item(asked.block, row);
      std::vector<double>& all = asked.block < 0 ? users_ : items_;
      all[static_cast<size_t>(to) * rank + i % rank] = length * static_cast<double>(rows[i]);
    }
  }
}

}  // namespace kerf::apps
