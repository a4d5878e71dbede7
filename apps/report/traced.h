// A traced step's record, from what was simulated and what was measured. Pure functions.
#pragma once

#include <vector>

#include "apps/report/step_spans.h"
#include "apps/report/traced_step.h"
#include "partitioner/stage_graph.h"

namespace kerf::apps {

// A simulated step as a lane shows it.
struct ShownTimeline {
  std::vector<std::vector<schedmp::Moment>> rows;  // by worker, as shown_actions()
  std::vector<std::vector<size_t>> place;          // by worker, by list: which of its row
};
ShownTimeline shown(const schedmp::Timeline& timeline);

struct StepKind {
  int64_t step = 0;
  bool goes_on = false;  // the pipeline, from the step before and into the next: it has no ramps
};
// `predicted` and `measured`: rows of shown_actions().
TracedStep traced_step(const schedmp::Schedule& schedule, const partitioner::StageGraph& graph,
                       const std::vector<std::vector<schedmp::Moment>>& predicted,
                       const std::vector<std::vector<schedmp::Moment>>& measured,
                       const StepKind& of);

}  // namespace kerf::apps
