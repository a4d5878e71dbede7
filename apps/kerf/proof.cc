#include "apps/kerf/proof.h"

#include <utility>

#include "partitioner/part.h"
#include "runtime/format.h"
#include "schedmp/interpreter.h"

namespace kerf::apps {

std::vector<partitioner::Part> lowered_for(const Planned& planned,
                                           const schedmp::Schedule& schedule) {
  return partitioner::lower(planned.model, planned.plan,
                            schedmp::lowering_for(schedule, planned.setting));
}

Proof prove(const Planned& planned, const schedmp::Schedule& schedule) {
  const partitioner::Plan& plan = planned.plan;
  Proof proof{schedmp::check_order(schedule), {}, {}};
  for (std::string& problem : schedmp::check_fits(schedule, plan))
    proof.problems.push_back(std::move(problem));
  if (!proof.problems.empty()) return proof;
  proof.parts = lowered_for(planned, schedule);
  proof.verdict = schedmp::verify(planned.model, plan, proof.parts, schedule, planned.setting);
  proof.problems = proof.verdict->problems;
  if (!proof.problems.empty() || !planned.memory) return proof;
  if (std::string why = schedmp::above_cap(proof.verdict->peak_bytes, *planned.memory);
      !why.empty())
    proof.problems.push_back(std::move(why));
  return proof;
}

}  // namespace kerf::apps
