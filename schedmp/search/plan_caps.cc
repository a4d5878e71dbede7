#include "schedmp/search/plan_caps.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/stage_graph.h"
#include "runtime/error.h"
#include "schedmp/search/plan_costs.h"
#include "schedmp/search/schedule_search.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

using partitioner::at;
using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;
using partitioner::Setting;

namespace {

// Bytes of regions that a part keeps a micro-batch in, from its F to its W.
int64_t kept_by(const Part& part) {
  using partitioner::RegionKind;
  return part.bytes_of(RegionKind::kKept) + part.bytes_of(RegionKind::kKeptForWeights) +
         part.bytes_of(RegionKind::kHanded);
}

// As many as regions have room for.
std::vector<int> kept_in_regions(const Model& model, const Plan& plan,
                                 const std::vector<Part>& parts, const Setting& setting,
                                 int64_t cap) {
  const Verdict alone = verify(model, plan, parts, one_at_a_time(plan), setting);
  std::vector<int> keep(plan.stages.size(), plan.micro_batches);
  for (const Part& part : parts) {
    const int64_t left = cap - alone.peak_bytes[at(part.worker)];
    if (left < 0)
      throw Error(ErrorCode::kInfeasible,
                  kerf::format("worker {} takes {} bytes with one micro-batch at a time, {} more "
                               "than the cap; give --memory {}",
                               part.worker, alone.peak_bytes[at(part.worker)], -left,
                               alone.peak_bytes[at(part.worker)]));
    const int64_t more =
        kept_by(part) > 0 ? left / kept_by(part) : std::numeric_limits<int64_t>::max() - 1;
    int& stage = keep[at(part.stage)];
    stage = static_cast<int>(std::min<int64_t>(stage, 1 + more));
  }
  return keep;
}

// Whether each worker takes more than the cap by the schedule.
std::vector<bool> above_cap_by(const Model& model, const Plan& plan, const std::vector<Part>& parts,
                               Setting setting, const Schedule& schedule, const Pipeline& pipeline,
                               int64_t cap) {
  setting.slots = std::max(setting.slots, smallest_buffer(schedule, pipeline.graph));
  std::vector<bool> above;
  for (const int64_t peak : verify(model, plan, parts, schedule, setting).peak_bytes)
    above.push_back(peak > cap);
  return above;
}

}  // namespace

std::vector<int> kept_within(const Model& model, const Plan& plan, const std::vector<Part>& parts,
                             const Setting& setting, const ActionCosts& costs, int64_t cap,
                             const std::function<void(double)>& sign) {
  SearchEffort none{.seconds = 0};
  none.sign = sign;
  const Pipeline pipeline = partitioner::pipeline_of(model, plan);
  std::vector<int> keep = kept_in_regions(model, plan, parts, setting, cap);
  for (bool lowered = true; std::exchange(lowered, false);) {
    const Schedule schedule =
        search_schedule(pipeline, plan.micro_batches, costs, keep, none).schedule;
    const std::vector<bool> above =
        above_cap_by(model, plan, parts, setting, schedule, pipeline, cap);
    for (size_t stage = 0; stage < keep.size(); ++stage)
      for (const int worker : pipeline.groups[stage]) {
        if (keep[stage] == 1 || !above[at(worker)]) continue;
        --keep[stage];
        lowered = true;
      }
  }
  return keep;
}

}  // namespace kerf::schedmp
