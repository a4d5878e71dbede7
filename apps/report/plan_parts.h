// Of a plan's record: what each worker of each stage computes, keeps and sends. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "apps/report/plan_record.h"
#include "partitioner/part.h"

namespace kerf::apps {

// Of a plan whose schedule fits it. `parts` are the plan's, lowered with gradients.
std::vector<PlanRecord::Part> parts_of(const partitioner::Model& model,
                                       const partitioner::Plan& plan,
                                       const std::vector<partitioner::Part>& parts,
                                       const schedmp::Schedule& schedule);
// A row for each worker and stage, and for a worker of several stages one of all of them; by worker
// alone where the record has no parts.
std::string workers_text(const PlanRecord& record, bool colour);
// A line for each stage; of long ones the first operators and the last.
std::string stages_text(const PlanRecord& record);

}  // namespace kerf::apps
