#include "partitioner/cuts/refused_rules.h"

#include <algorithm>

#include "partitioner/plan.h"

namespace kerf::partitioner {
namespace {

constexpr int kMoreWorkers = 4;  // that are tried

std::vector<std::string> flags_of(const Steering& steering) {
  std::vector<std::string> flags;
  if (!steering.places.empty()) flags.emplace_back("--place");
  if (!steering.together.empty()) flags.emplace_back("--together");
  if (!steering.apart.empty()) flags.emplace_back("--apart");
  if (steering.stages_per_worker > 1) flags.emplace_back("--stages-per-worker");
  return flags;
}

// Patterns of a list are on as many workers at least.
int workers_of_apart(const Steering& steering) {
  size_t most = 0;
  for (const auto& patterns : steering.apart) most = std::max(most, patterns.size());
  return static_cast<int>(std::min<size_t>(most, kMostParts));
}

// 0: no few more are enough, or they are not to be had by a number alone.
int workers_that_meet(const CutTask& task, const std::function<bool(const CutTask&)>& meets) {
  const Steering& steering = task.request.steering;
  if (steering.apart.empty() || !steering.places.empty() || steering.stages_per_worker > 1 ||
      !task.request.placement.empty() || !task.request.speed.capacities.empty())
    return 0;
  PlanRequest request = task.request.without_caps();
  const int first = std::max(request.workers + 1, workers_of_apart(steering));
  for (int workers = first; workers < first + kMoreWorkers; ++workers) {
    request.workers = workers;
    try {
      if (meets({task.model, request, task.in_flight, task.peaks})) return workers;
    } catch (const RulesUnmet&) {
      continue;
    } catch (const Error& error) {  // no plan of so many, whatever the rules
      if (error.code() == ErrorCode::kInternal) throw;
    }
  }
  return 0;
}

}  // namespace

void refuse_rules(const CutTask& task, const std::function<bool(const CutTask&)>& meets) {
  const std::vector<std::string> flags = flags_of(task.request.steering);
  const int enough = workers_that_meet(task, meets);
  throw Error(ErrorCode::kInfeasible,
              format("no division of {} into stages of {} was found that meets what {} {}; {}leave "
                     "something out",
                     task.model.name(), plural(task.request.workers_bound(), "worker"),
                     fmt::join(flags, " and "), flags.size() == 1 ? "asks" : "ask",
                     enough > 0 ? format("give --workers {}, or ", enough) : ""));
}

}  // namespace kerf::partitioner
