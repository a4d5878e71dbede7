// Every schedule by name: one line each.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "runtime/error.h"
#include "schedmp/schedules.h"

namespace kerf::schedmp {

namespace {

struct Entry {
  const char* name;
  Schedule (*make)(const Pipeline& pipeline, int micro_batches);
  // Micro-batches that a stage so many hops from the end holds at once, at most.
  int (*in_flight)(int hops, int micro_batches);
  bool trains = true;
};

constexpr Entry kEntries[] = {
    {"1f1b", one_f_one_b, [](int hops, int m) { return std::min(m, hops + 1); }},
    {"gpipe", gpipe, [](int, int m) { return m; }},
    {"forward-only", forward_only, [](int, int) { return 1; }, false},
};

const Entry& find_entry(const std::string& name) {
  for (const Entry& entry : kEntries)
    if (name == entry.name) return entry;
  throw Error(ErrorCode::kUsage, kerf::format("there is no schedule '{}'; there are {}, and files",
                                              name, fmt::join(schedule_names(), ", ")));
}

class EntryInFlight : public partitioner::InFlight {
 public:
  explicit EntryInFlight(const Entry& entry) : entry_(entry) {}
  int kept(int /*stage*/, int hops, int micro_batches) const override {
    return entry_.in_flight(hops, micro_batches);
  }
  bool trains() const override { return entry_.trains; }

 private:
  const Entry& entry_;
};

// Of rows: how many micro-batches a stage has between their F and their last gradient, and between
// I and W, on any of its workers.
class RowsInFlight : public partitioner::InFlight {
 public:
  explicit RowsInFlight(const Schedule& schedule)
      : kept_(schedule.groups.size()), handed_(schedule.groups.size()), trains_(schedule.trains()) {
    if (trains_)
      for (const std::vector<Action>& row : schedule.rows) count(row);
    else
      std::fill(kept_.begin(), kept_.end(), 1);  // nothing is kept for gradients
  }
  int kept(int stage, int, int micro_batches) const override {
    return known(stage) ? kept_[static_cast<size_t>(stage)] : micro_batches;
  }
  int handed(int stage, int, int micro_batches) const override {
    return known(stage) ? handed_[static_cast<size_t>(stage)] : micro_batches;
  }
  bool splits() const override {
    return std::ranges::any_of(handed_, [](int handed) { return handed > 0; });
  }
  bool trains() const override { return trains_; }

 private:
  bool known(int stage) const { return static_cast<size_t>(stage) < kept_.size(); }

  void count(const std::vector<Action>& row) {
    std::map<int, std::pair<int, int>> now;  // stage -> in flight, handed
    for (const Action& action : row) {
      if (!known(action.stage)) continue;
      auto& [flying, handed] = now[action.stage];
      const bool weights = action.kind == ActionKind::kWeightGradient;
      if (action.kind == ActionKind::kForward) ++flying;
      if (action.kind == ActionKind::kInputGradient) ++handed;
      int& most = kept_[static_cast<size_t>(action.stage)];
      int& most_handed = handed_[static_cast<size_t>(action.stage)];
      most = std::max(most, flying);
      // A B between another's I and its W has both for a while.
      const bool both = action.kind == ActionKind::kBackward && handed > 0;
      most_handed = std::max(most_handed, handed + (both ? 1 : 0));
      if (weights) --handed;
      if (weights || action.kind == ActionKind::kBackward) --flying;
    }
  }

  std::vector<int> kept_;
  std::vector<int> handed_;
  bool trains_;
};

}  // namespace

int count_workers(const std::vector<std::vector<int>>& groups) {
  std::set<int> workers;
  for (const std::vector<int>& group : groups) {
    if (group.empty()) throw Error(ErrorCode::kUsage, "a stage has no worker");
    workers.insert(group.begin(), group.end());
  }
  const auto count = static_cast<int>(workers.size());
  if (!workers.empty() && (*workers.begin() != 0 || *workers.rbegin() != count - 1))
    throw Error(ErrorCode::kUsage,
                kerf::format("the stages are on the workers {}; use every number from 0 to {}",
                             fmt::join(workers, ","), count - 1));
  return count;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

Schedule make_schedule(const std::string& name, const Pipeline& pipeline, int micro_batches) {
  const Entry& entry = find_entry(name);
  if (micro_batches < 1)
    throw Error(ErrorCode::kUsage,
                kerf::format("a step needs at least 1 micro-batch, not {}", micro_batches));
  int64_t members = 0;
  for (const std::vector<int>& group : pipeline.groups)
    members += static_cast<int64_t>(group.size());
  if (members * (2 * int64_t{micro_batches} + 1) > kMostActions)
    throw Error(ErrorCode::kUsage,
                kerf::format("{} micro-batches on {} workers are more than {} actions; use fewer "
                             "--micro-batches",
                             micro_batches, members, kMostActions));
  return entry.make(pipeline, micro_batches);
}

Schedule make_schedule(const std::string& name, const partitioner::Model& model,
                       const partitioner::Plan& plan) {
  return make_schedule(name, pipeline_of(model, plan), plan.micro_batches);
}

std::unique_ptr<partitioner::InFlight> in_flight_of(const std::string& schedule) {
  return std::make_unique<EntryInFlight>(find_entry(schedule));
}

std::unique_ptr<partitioner::InFlight> in_flight_of(const Schedule& schedule) {
  return std::make_unique<RowsInFlight>(schedule);
}

}  // namespace kerf::schedmp
