#include "partitioner/cuts/bytes_to_go.h"

#include <algorithm>
#include <cmath>

#include "partitioner/at.h"
#include "partitioner/cuts/trees.h"

namespace kerf::partitioner {
namespace {

constexpr double kRounding = 1e-9;  // of sums in another order
constexpr int kStepsOfStage = 128;  // of an even share of the work
constexpr int kMostSteps = 4096;

}  // namespace

BytesToGo::BytesToGo(const Units& units, const Ideals& ideals, const IdealFacts& facts,
                     const std::vector<double>& left, const Task& task) {
  const double all = left.front();
  if (all <= 0 || task.price <= 0 || task.price >= all) return;
  width_ = all / std::min({kStepsOfStage * task.stages, kMostSteps, ideals.size()});
  apart_ = static_cast<int>(task.price * (1 + kRounding) / width_) + 2;
  find_steps(units, ideals, left);
  find_fresh(units, ideals, facts, task.keep_close);
  find_least(task);
}

void BytesToGo::find_steps(const Units& units, const Ideals& ideals,
                           const std::vector<double>& left) {
  const auto step_of = [&](int ideal) {
    return static_cast<int>((left.front() - left[at(ideal)]) / width_ * (1 - kRounding));
  };
  begins_.assign(at(units.size()), kMostSteps);
  for (int ideal = 0; ideal < ideals.size(); ++ideal) {
    step_.push_back(step_of(ideal));
    for (const Ideals::Step& next : ideals.steps(ideal))
      begins_[at(next.unit)] = std::min(begins_[at(next.unit)], step_of(next.ideal) - 1);
  }
}

// A boundary before is anywhere in its step: what its ideals may have is that of the step's end.
void BytesToGo::find_fresh(const Units& units, const Ideals& ideals, const IdealFacts& facts,
                           bool keep_close) {
  fresh_.assign(at(step_.back()) + 1, std::vector<double>(at(apart_), kNever));
  std::vector<double> fresh(at(apart_));
  for (int ideal = 1; ideal + 1 < ideals.size(); ++ideal) {
    if (keep_close && facts.parted[at(ideal)]) continue;
    std::fill(fresh.begin(), fresh.end(), 0);
    for (const int number : facts.alive_in(ideal)) {
      const UnitValue& value = units.values[at(number)];
      const int back = step_[at(ideal)] - begins_[at(value.producer)];
      if (back < apart_) fresh[at(back)] += value.bytes;
    }
    double bytes = 0;
    for (int back = 0; back < apart_; ++back) {
      bytes += fresh[at(back)];
      double& least = fresh_[at(step_[at(ideal)])][at(back)];
      least = std::min(least, bytes);
    }
  }
}

void BytesToGo::find_least(const Task& task) {
  const int steps = step_.back() + 1;
  least_.assign(at(task.stages) + 1, std::vector<double>(at(steps), kNever));
  std::vector<double>& none_behind = least_[at(task.stages) - 1];
  for (int step = std::max(0, steps - apart_); step < steps; ++step) none_behind[at(step)] = 0;
  least_[at(task.stages)].assign(at(steps), 0);
  for (int stage = task.stages - 2; stage >= 0; --stage)
    for (int step = 0; step < steps; ++step)
      for (int next = step; next < std::min(steps, step + apart_); ++next)
        least_[at(stage)][at(step)] = std::min(
            least_[at(stage)][at(step)],
            fresh_[at(next)][at(next - step)] * (1 - kRounding) + least_[at(stage) + 1][at(next)]);
}

}  // namespace kerf::partitioner
