// The best division of a graph into stages, over all that there are: dynamic programming over
// (devices used, ideal). Exact; the way of Jeon et al. 2020 and Tarnawski et al. 2020, with two
// things beside: from an ideal only those are looked at that a stage within the limits leads to,
// each along one path (its units by rank, so that what a stage costs is kept up to date in
// O(degree) a unit), and devices of several types are used in whichever order is best.
//
// Borrows units, ideals and limits; used by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/cuts/bytes_to_go.h"
#include "partitioner/cuts/growing_stage.h"
#include "partitioner/cuts/ideal_facts.h"
#include "partitioner/cuts/line_search.h"

namespace kerf::partitioner {

// A division as a chain of ideals.
struct IdealChain {
  double value = kNever;          // what was asked for: a bottleneck, bytes or memory
  std::vector<int> ideals;        // one per stage; the last has every unit
  std::vector<int> device_types;  // one per stage
  bool found() const { return value < kNever; }
};

class IdealSearch {
 public:
  // `limits`: unless their order is given, its device types may be used in any. Borrows `facts`,
  // too.
  IdealSearch(const Units& units, const Ideals& ideals, const IdealFacts& facts,
              const StageLimits& limits);

  // Each is empty where it takes more than `visits` steps, and not found() where nothing is within
  // the limits. The least bottleneck, if at most `limit`.
  std::optional<IdealChain> least_bottleneck(double limit, int64_t visits);
  // Of the divisions with no stage above `bottleneck` one with the fewest bytes, if these are at
  // most `limit`. `keep_close`: boundaries part no units that are better together.
  std::optional<IdealChain> fewest_bytes(double bottleneck, double limit, bool keep_close,
                                         int64_t visits);
  // The least that the fullest stage holds, if at most `limit`.
  std::optional<IdealChain> least_memory(double limit, int64_t visits);

 private:
  enum class Goal : uint8_t { kBottleneck, kBytes, kMemory };
  struct Task {
    Goal goal = Goal::kBottleneck;
    double price = kNever;  // of a stage, at most
    double value = kNever;  // of the whole, at most
    bool keep_close = false;
    int64_t visits = 0;
  };
  struct Best {
    double value = kNever;
    int start = -1;
    int type = -1;
  };
  struct Frame {
    int ideal = 0;
    size_t step = 0;
    int unit = -1;
    StageTotals totals;
    StageRules rules;
  };

  int states() const { return static_cast<int>(used_.size()); }
  bool is_host(size_t type) const { return static_cast<int>(type) == limits_.host_type; }
  Best& best(int ideal, int state) {
    return best_[static_cast<size_t>(ideal) * used_.size() + static_cast<size_t>(state)];
  }
  // Whether the next stage of a state may be on such a device, or on such a worker.
  bool may_use(size_t state, size_t type) const {
    return limits_.is_ordered() ? limits_.device_type[stage_of(state)] == static_cast<int>(type)
                                : used_[state][type] < count_[type];
  }
  bool may_be_on(size_t state, int worker) const {
    return worker < 0 || limits_.worker[stage_of(state)] == worker;
  }
  size_t stage_of(size_t state) const { return static_cast<size_t>(stage_[state]); }
  void number_states();
  void number_stages();
  void find_left_held();
  bool lacks_room(const Task& task, int ideal, int stages) const;
  std::optional<IdealChain> run(const Task& task);
  void find_live(const Task& task, int ideal);
  bool explore(const Task& task, int start, int64_t& visits);
  void finish(const Task& task, int start, const std::vector<int>& before);
  bool within(const Task& task, const StageTotals& totals, int worker) const;
  void relax(const Task& task, int start, int state, int end, const StageTotals& totals,
             int worker);
  IdealChain chain();

  const Units& units_;
  const Ideals& ideals_;
  const IdealFacts& facts_;
  const StageLimits& limits_;
  std::vector<int> count_;              // of devices, by type
  std::vector<std::vector<int>> used_;  // state -> devices used, by type; where order is free
  std::vector<int> stage_;              // state -> stages before it
  std::vector<bool> complete_;          // state -> whether only hosts are left
  std::vector<int> stride_;             // by type: from a state to that with one more of it
  std::vector<double> left_;            // ideal -> the least work that it lacks
  std::vector<double> left_held_;       // ideal -> the least that what it lacks holds; none: no cap
  BytesToGo to_go_;                     // of the task, if it is about bytes
  GrowingStage stage_now_;
  std::vector<int> live_;  // states of the start that have a value, and a stage to go on
  double least_live_ = kNever;
  bool last_live_ = false;  // whether a state has but one stage left
  std::vector<Best> best_;  // by ideal and state
};

}  // namespace kerf::partitioner
