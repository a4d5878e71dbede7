#include "schedmp/schedules/v_block.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr int kPeriod = 6;           // F, I and W of two chunks, one unit of time each
constexpr int kMostWaits = kPeriod;  // in each place: more are the same again, later

// What a worker does of the first micro-batch, and when; of each later one a period later.
struct Timed {
  int time = 0;
  bool up = false;
  ActionKind kind = ActionKind::kForward;
};

// The block of all workers, with waits where it turns: before the way up, before the gradients, and
// before their way up. It can be repeated if a worker has no two actions in the same moment of a
// period.
class TurnedBlock {
 public:
  TurnedBlock(const VBlock& block, int workers, int before_up, int before_back, int before_end)
      : block_(block), workers_(workers) {
    const int last = workers - 1;
    up_ = last * (block.forward_down + block.forward_up) + 1 + before_up;
    back_ = up_ + 1 + before_back;
    end_ = back_ + last * (block.gradient_down + block.gradient_up) + 1 + before_end;
  }

  int end() const { return end_; }

  // F down, F up, I of what is up, I of what is down.
  std::vector<Timed> own(int worker) const {
    return {{worker * block_.forward_down, false, ActionKind::kForward},
            {up_ - worker * block_.forward_up, true, ActionKind::kForward},
            {back_ + worker * block_.gradient_down, true, ActionKind::kInputGradient},
            {end_ - worker * block_.gradient_up, false, ActionKind::kInputGradient}};
  }

  // Those, and the gradients of weights in the two moments of a period that are left, each as soon
  // as it can be.
  std::vector<Timed> with_weights(int worker) const {
    std::vector<Timed> all = own(worker);
    for (const size_t after : {2, 3}) {
      Timed weights{all[after].time + 1, all[after].up, ActionKind::kWeightGradient};
      while (meets(all, weights)) ++weights.time;
      all.push_back(weights);
    }
    return all;
  }

  bool can_repeat() const {
    for (int worker = 0; worker < std::min(workers_, kPeriod); ++worker) {  // others are as these
      std::vector<Timed> before;
      for (const Timed& each : own(worker)) {
        if (meets(before, each)) return false;
        before.push_back(each);
      }
    }
    return true;
  }

  // Micro-batches of both chunks together, on any worker, while it is repeated.
  int kept() const {
    int most = 0;
    for (int worker = 0; worker < workers_; ++worker) {
      const std::vector<Timed> all = with_weights(worker);
      for (int moment = 0; moment < kPeriod; ++moment)
        most = std::max(most, at_once(all[0].time, all[5].time, moment) +
                                  at_once(all[1].time, all[4].time, moment));
    }
    return most;
  }

 private:
  static bool meets(const std::vector<Timed>& others, const Timed& one) {
    return std::any_of(others.begin(), others.end(),
                       [&](const Timed& other) { return (other.time - one.time) % kPeriod == 0; });
  }

  // How many of what lasts from `first` to `last`, and so in every period, last in that moment.
  static int at_once(int first, int last, int moment) {
    const auto begun =
        [&](int time) {  // of the periods up to this moment; below 0, of earlier ones
          const int since = moment - time;
          return since >= 0 ? since / kPeriod : -((kPeriod - 1 - since) / kPeriod);
        };
    return begun(first) - begun(last + 1);
  }

  const VBlock& block_;
  int workers_;
  int up_ = 0, back_ = 0, end_ = 0;  // of the first worker: the last three of its own
};

TurnedBlock best_of(const std::vector<VBlock>& blocks, int workers) {
  std::optional<TurnedBlock> best;
  std::pair<int, int> least;
  for (const VBlock& block : blocks)
    for (int waits = 0; waits < kMostWaits * kMostWaits * kMostWaits; ++waits) {
      const TurnedBlock turned(block, workers, waits % kMostWaits, waits / kMostWaits % kMostWaits,
                               waits / kMostWaits / kMostWaits);
      if (!turned.can_repeat()) continue;
      const std::pair cost(turned.kept(), turned.end());
      if (best && cost >= least) continue;
      best.emplace(turned);
      least = cost;
    }
  KERF_CHECK(best, "no block of {} workers can be repeated", workers);
  return *best;
}

std::vector<Action> repeated(const std::vector<Timed>& block, const std::vector<int>& stages,
                             int micro_batches) {
  std::vector<std::tuple<int, size_t, int>> order;  // time, number in the block, micro-batch
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch)
    for (size_t i = 0; i < block.size(); ++i)
      order.emplace_back(block[i].time + kPeriod * micro_batch, i, micro_batch);
  std::sort(order.begin(), order.end());
  std::vector<Action> row;
  for (const auto& [time, i, micro_batch] : order)
    row.push_back({stages[block[i].up ? 1 : 0], block[i].kind, micro_batch});
  return row;
}

}  // namespace

Schedule repeat_block(const std::string& name, const std::vector<VBlock>& blocks,
                      const Pipeline& pipeline, int micro_batches) {
  const DistinctGroups groups = placed_groups(shape_of(name), name, pipeline);
  const TurnedBlock block = best_of(blocks, groups.count());
  std::vector<std::vector<Action>> rows;
  for (int group = 0; group < groups.count(); ++group)
    rows.push_back(repeated(block.with_weights(group), groups.stages[static_cast<size_t>(group)],
                            micro_batches));
  return with_rows(name, pipeline, groups, micro_batches, rows);
}

}  // namespace kerf::schedmp
