#include "apps/report/plan_certificate.h"

#include <utility>

#include "apps/report/table.h"
#include "runtime/format.h"

namespace kerf::apps {

Json certificate_json(double bottleneck, const partitioner::Bound& bound) {
  return {{"kind", partitioner::is_exact(bottleneck, bound.value) ? "exact" : "bound"},
          {"value", bound.value},
          {"witness", bound.witness}};
}

std::string certificate_text(double bottleneck, const partitioner::Bound& bound) {
  const std::string why = bound.witness.empty() ? "" : format(" ({})", bound.witness);
  if (partitioner::is_exact(bottleneck, bound.value)) return "the least there is" + why;
  return human_percent(partitioner::gap_of(bottleneck, bound.value)) + " above a lower bound" + why;
}

Json assignment_json(const std::vector<std::string>& names, const std::vector<int>& stage_of) {
  Json::object_t assignment;  // names are distinct; a search for each would take long
  for (size_t node = 0; node < names.size(); ++node)
    assignment.emplace_back(names[node], stage_of[node]);
  return Json(std::move(assignment));
}

}  // namespace kerf::apps
