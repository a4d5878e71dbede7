// The proof: the messages of every worker's row, played against each other under limited slots.
#include "schedmp/verify.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/error.h"
#include "schedmp/interpreter.h"
#include "schedmp/message_play.h"

namespace kerf::schedmp {

using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;

namespace {

// The first of [low, high] for which `holds`, which holds for `high` and all above the first: a
// slot more never blocks anybody.
template <class Holds>
int first_true(int low, int high, const Holds& holds) {
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Of steps one behind the other: the smallest safe number of slots, and whether those that there
// are do.
void prove_messages(const Model& model, const Plan& plan, const std::vector<Rehearsal>& workers,
                    const Steps& steps, int slots, Verdict& verdict) {
  const std::set<int> counts = steps_to_play(steps);
  const auto safe = [&](int k) {
    return std::ranges::all_of(counts, [&](int count) {
      return MessagePlay(model, plan, workers, steps, count, verdict.held, k).finished();
    });
  };
  const int all = steps.under_way();
  if (safe(all)) verdict.smallest_safe_slots = first_true(0, all, safe);
  for (const int count : counts) {
    MessagePlay play(model, plan, workers, steps, count, verdict.held, slots);
    if (play.finished()) continue;
    verdict.problems.push_back(play.explain() +
                               (verdict.smallest_safe_slots > 0
                                    ? kerf::format("; {} would do", verdict.smallest_safe_slots)
                                    : std::string()));
    return;
  }
}

}  // namespace

std::string above_cap(const std::vector<int64_t>& peak_bytes, int64_t cap) {
  for (size_t worker = 0; worker < peak_bytes.size(); ++worker)
    if (const int64_t over = peak_bytes[worker] - cap; over > 0)
      return kerf::format(
          "worker {} needs {} bytes more than the memory cap of {} bytes; --memory {} would do, or "
          "another plan",
          worker, over, cap, *std::max_element(peak_bytes.begin(), peak_bytes.end()));
  return {};
}

Verdict verify(const Model& model, const Plan& plan, const std::vector<Part>& parts,
               const Schedule& schedule, const partitioner::Setting& setting,
               const std::vector<int>& least_held) {
  Verdict verdict;
  verdict.problems = check_order(schedule);
  for (std::string& problem : check_fits(schedule, plan))
    verdict.problems.push_back(std::move(problem));
  if (setting.slots < 1) verdict.problems.push_back("a route needs at least 1 free slot");
  if (!verdict.problems.empty()) return verdict;

  const int64_t samples = plan.largest_micro_batch();
  const bool trains = schedule.trains();
  if (const auto why = why_it_drains(schedule, plan.stage_of(model.loss()))) {
    verdict.problems.push_back("its steps cannot go on, and it does not drain: " + *why);
    return verdict;
  }
  const Steps steps(schedule);
  std::vector<Rehearsal> workers;
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const std::vector<const Part*> mine = parts_of(parts, worker);
    workers.push_back(rehearse(mine, steps, worker));
    verdict.arena_bytes.push_back(ArenaPlan(mine, region_needs(mine, steps, worker)).bytes());
    int64_t persistent = 0;
    for (const Part* part : mine)
      persistent +=
          persistent_bytes(*part, setting.optimizer_states, steps.micro_batches(), trains);
    verdict.persistent_bytes.push_back(persistent);
  }
  verdict.held = least_held;
  verdict.held.resize(plan.routes.size());
  raise_held(model, plan, parts, workers, steps, verdict.held);
  prove_messages(model, plan, workers, steps, setting.slots, verdict);

  verdict.peak_bytes = slot_bytes(model, plan, verdict.held, setting, samples);
  for (size_t worker = 0; worker < verdict.peak_bytes.size(); ++worker)
    verdict.peak_bytes[worker] += verdict.arena_bytes[worker] + verdict.persistent_bytes[worker];
  return verdict;
}

}  // namespace kerf::schedmp
