#include "partitioner/cuts/bytes_to_go.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/cuts/trees.h"

namespace kerf::partitioner {
namespace {

constexpr double kRounding = 1e-9;       // of sums in another order
constexpr int kStepsOfStage = 128;       // of an even share of the work
constexpr int64_t kMostPairs = 500'000;  // of steps that boundaries may be at, over all stages

using Task = BytesToGo::Task;

// As fine as pays: there are no more steps than ideals, and of wide stages fewer.
int steps_for(const Task& task, double all, int ideals) {
  int steps = std::min(kStepsOfStage * task.stages, ideals);
  const double apart = task.price / all;
  while (steps > 1 && apart * steps * steps * task.stages > static_cast<double>(kMostPairs))
    steps -= steps / 4 + 1;
  return std::max(steps, 1);
}

class LeastToGo {
 public:
  LeastToGo(const Units& units, const Ideals& ideals, const IdealFacts& facts,
            const std::vector<double>& left, const Task& task)
      : units_(units),
        ideals_(ideals),
        facts_(facts),
        task_(task),
        width_(left.front() / steps_for(task, left.front(), ideals.size())),
        apart_(static_cast<int>(task.price * (1 + kRounding) / width_) + 2) {
    for (const double lacks : left)
      step.push_back(static_cast<int>((left.front() - lacks) / width_ * (1 - kRounding)));
  }

  // [stage][step of the boundary that it begins at]
  std::vector<std::vector<double>> least() const {
    const std::vector<std::vector<double>> fresh = fresh_bytes();
    const int steps = step.back() + 1;
    std::vector<std::vector<double>> least(at(task_.stages) + 1,
                                           std::vector<double>(at(steps), kNever));
    least[at(task_.stages)].assign(at(steps), 0);
    std::vector<double>& last = least[at(task_.stages) - 1];
    std::fill(last.begin() + std::max(0, steps - apart_), last.end(), 0);
    for (int stage = task_.stages - 2; stage >= 0; --stage)
      for (int begin = 0; begin < steps; ++begin)
        for (int end = begin; end < std::min(steps, begin + apart_); ++end) {
          double& known = least[at(stage)][at(begin)];
          known = std::min(known, fresh[at(end)][at(end - begin)] * (1 - kRounding) +
                                      least[at(stage) + 1][at(end)]);
        }
    return least;
  }

  std::vector<int> step;  // by ideal

 private:
  // Unit -> the last step in which no ideal has it.
  std::vector<int> last_without() const {
    std::vector<int> last(at(units_.size()), step.back());
    for (int ideal = 0; ideal < ideals_.size(); ++ideal)
      for (const Ideals::Step& next : ideals_.steps(ideal))
        last[at(next.unit)] = std::min(last[at(next.unit)], step[at(next.ideal)] - 1);
    return last;
  }

  // [step][steps that the boundary before is back]: that is anywhere in its own, whose ideals may
  // have what those at its end have.
  std::vector<std::vector<double>> fresh_bytes() const {
    const std::vector<int> without = last_without();
    std::vector<std::vector<double>> fresh(at(step.back()) + 1,
                                           std::vector<double>(at(apart_), kNever));
    std::vector<double> more(at(apart_));  // by steps back
    for (int ideal = 1; ideal + 1 < ideals_.size(); ++ideal) {
      if (task_.keep_close && facts_.parted[at(ideal)]) continue;
      std::fill(more.begin(), more.end(), 0);
      for (const int number : facts_.alive_in(ideal)) {
        const UnitValue& value = units_.values[at(number)];
        const int back = step[at(ideal)] - without[at(value.producer)];
        if (back < apart_) more[at(back)] += value.bytes;
      }
      std::vector<double>& least = fresh[at(step[at(ideal)])];
      double bytes = 0;
      for (int back = 0; back < apart_; ++back) {
        bytes += more[at(back)];
        least[at(back)] = std::min(least[at(back)], bytes);
      }
    }
    return fresh;
  }

  const Units& units_;
  const Ideals& ideals_;
  const IdealFacts& facts_;
  const Task& task_;
  const double width_;  // of a step, in work
  const int apart_;     // boundaries are fewer steps apart
};

}  // namespace

BytesToGo::BytesToGo(const Units& units, const Ideals& ideals, const IdealFacts& facts,
                     const std::vector<double>& left, const Task& task) {
  const double all = left.front();
  if (all <= 0 || task.price <= 0 || task.price >= all) return;
  LeastToGo finding(units, ideals, facts, left, task);
  least_ = finding.least();
  step_ = std::move(finding.step);
}

}  // namespace kerf::partitioner
