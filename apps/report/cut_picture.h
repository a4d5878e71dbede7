// The cut of a plan from its record alone: a box for each worker with its stages, values above and
// gradients below, by their bytes of a step, without the step vector's few, which everybody sends.
// SVG for within the report's page (page.h). The picture
// of every operator is partitioner/picture.h's, which needs the model. Pure function.
#pragma once

#include <string>

#include "apps/report/plan_record.h"

namespace kerf::apps {

// Empty of more workers than can be looked at (kMostCutWorkers), and where a route or a stage is of
// a worker that the plan has not.
inline constexpr size_t kMostCutWorkers = 16;
std::string draw_cut(const PlanRecord& plan);

}  // namespace kerf::apps
