#include "partitioner/let_go.h"

#include "partitioner/at.h"

namespace kerf::partitioner {

namespace {

void note(const InstructionList& list, bool LetGo::*in_list, std::vector<RouteEnds>& ends) {
  for (const Instruction& each : list.instructions) {
    if (each.kind == Instruction::Kind::kRetire) ends[at(each.route)].sender.*in_list = true;
    if (each.kind == Instruction::Kind::kRelease) ends[at(each.route)].receiver.*in_list = true;
  }
}

bool is_in_its_action(const LetGo& let_go, bool gradient) {
  if (let_go.recompute || let_go.weight_gradient) return false;
  return let_go.input_gradient == gradient && let_go.forward != gradient;
}

}  // namespace

std::vector<RouteEnds> ends_of_routes(const Plan& plan, const std::vector<Part>& parts) {
  std::vector<RouteEnds> ends(plan.routes.size());
  for (const Part& part : parts) {
    note(part.forward, &LetGo::forward, ends);
    note(part.input_gradient, &LetGo::input_gradient, ends);
    note(part.weight_gradient, &LetGo::weight_gradient, ends);
    note(part.recompute, &LetGo::recompute, ends);
  }
  return ends;
}

bool is_brief(const Route& route, const RouteEnds& ends) {
  return is_in_its_action(ends.sender, route.gradient) &&
         is_in_its_action(ends.receiver, route.gradient);
}

}  // namespace kerf::partitioner
