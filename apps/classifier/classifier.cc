#include "apps/classifier/classifier.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>

#include "apps/data/even_range.h"
#include "apps/data/told_vector.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

// All rows are looked at when the gap should be this part of what it was.
constexpr double kMuchSmaller = 0.1;
constexpr int kMostRoundsUnchecked = 20;  // rounds
constexpr double kMostWrong = 10;         // a guess is, by this factor

std::string absolute_or_none(const std::string& file) {
  return file.empty() ? file : std::filesystem::absolute(file).string();
}

}  // namespace

Classifier::Classifier(const ClassifierOptions& options, int workers)
    : options_(options),
      workers_(workers),
      run_(options, options.size.rows, options.file.data),
      weights_(static_cast<size_t>(options.size.columns) + (options.bias == 0 ? 0 : 1)) {
  KERF_CHECK(options.c > 0 && options.bias >= 0 && options.sweeps >= 1);
}

ClassifierJob Classifier::job(int worker) {
  const ops::Range rows = even_range(options_.size.rows, workers_, worker);
  return {{absolute_or_none(options_.file.data), absolute_or_none(options_.file.labels)},
          rows.begin,
          rows.end,
          options_.size.columns,
          options_.size.labels,
          options_.loss,
          options_.c,
          options_.bias,
          options_.seed};
}

// The weights piece by piece, the sweeps with the last, and what they changed piece by piece.
Classifier::Decision Classifier::schedule(int64_t round) {
  if (round == 0) run_.begin();
  if (over_) return schedmp::Done{};
  std::vector<Task> tasks;
  const std::vector<ops::Range> pieces = pieces_of(std::ssize(weights_));
  for (const ops::Range& piece : pieces) {
    ClassifierTask task;
    task.first = piece.begin;
    task.weights = piece_of(weights_, piece);
    if (piece.end == std::ssize(weights_)) {
      task.kept = kept_;
      task.check = check_;
      task.sweeps = ends_ ? 0 : options_.sweeps;
      task.asked_count = pieces.front().size();
    }
    for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, task});
  }
  for (size_t i = 1; i < pieces.size(); ++i) {
    ClassifierTask task;
    task.asked_first = pieces[i].begin;
    task.asked_count = pieces[i].size();
    for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, task});
  }
  return tasks;
}

void Classifier::aggregate(int64_t round, std::vector<Result> results) {
  const Sum sum = sum_of(results);
  if (check_ && ends_by_check(round + 1, sum)) return;
  if (!check_) ++rounds_unchecked_;
  plan_next(sum);
  move(sum);
}

// Piece by piece, of each what all workers said.
Classifier::Sum Classifier::sum_of(const std::vector<Result>& results) {
  Sum sum;
  sum.change.resize(weights_.size());
  const std::vector<ops::Range> pieces = pieces_of(std::ssize(weights_));
  const auto workers = static_cast<size_t>(workers_);
  KERF_CHECK(results.size() == tasks_of_pieces(pieces) * workers);
  for (size_t i = 0; i < results.size(); ++i) {
    const ClassifierResult& said = results[i].payload;
    sum.dual += said.dual;
    sum.dual_swept += said.dual_swept;
    sum.losses += said.losses;
    sum.gap += said.gap;
    updates_ += said.updates;
    add_piece(sum.change, piece_answered(pieces, i / workers), said.asked);
  }
  return sum;
}

bool Classifier::ends_by_check(int64_t rounds, const Sum& sum) {
  const double half_square = dot_of(weights_, weights_) / 2;
  const double primal = half_square + sum.losses;
  last_gap_ = relative_gap(primal, sum.dual - half_square);
  truth_ = std::clamp(truth_ * last_gap_ / guessed_, 1 / kMostWrong, kMostWrong);
  rounds_unchecked_ = 0;
  over_ = run_.check(rounds, updates_, primal, last_gap_);
  return over_;
}

// The gap that the next round begins with should have fallen by the factor by which the gap that is
// met did. What is no number is told by a check.
void Classifier::plan_next(const Sum& sum) {
  if (std::exchange(ends_, false)) {  // it did not, and no sweep met anything
    check_ = false;
    return;
  }
  const double dual_now = sum.dual - dot_of(weights_, weights_) / 2;
  const double met = sum.gap / (dual_now + sum.gap);
  guessed_ = truth_ * met * std::min(1.0, met / met_);
  met_ = met;
  ends_ = !(guessed_ > options_.tolerance) || run_.limit_is_reached(updates_);
  check_ =
      ends_ || guessed_ <= kMuchSmaller * last_gap_ || rounds_unchecked_ >= kMostRoundsUnchecked;
}

// Near the end the rise is less than the rounding of what it is the difference of; what it is at
// least is known.
void Classifier::move(const Sum& sum) {
  const double rise = sum.dual_swept - sum.dual - dot_of(weights_, sum.change);
  const double length = dot_of(sum.change, sum.change);
  kept_ = length > 0 ? std::clamp(rise / length, 0.5 / workers_, 1.0) : 1;
  for (size_t i = 0; i < weights_.size(); ++i) weights_[i] += kept_ * sum.change[i];
}

}  // namespace kerf::apps
