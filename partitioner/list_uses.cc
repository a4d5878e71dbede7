#include "partitioner/list_uses.h"

#include "partitioner/call_needs.h"

namespace kerf::partitioner {

std::array<InstructionList*, kLists> lists_of(Part& part) {
  return {&part.forward,
          &part.input_gradient,
          &part.weight_gradient,
          &part.backward,
          &part.checkpointed_forward,
          &part.recompute,
          &part.apply,
          &part.contribute,
          &part.reduce,
          &part.conclude,
          &part.update,
          &part.fetch};
}

void ListUses::extend(size_t list, size_t index) {
  std::optional<InstructionRange>& use = in[list];
  if (!use) use = InstructionRange{index, index};
  use->last = index;
}

std::vector<ListUses> uses_of_locals(const Model& model, Part& part) {
  std::vector<ListUses> uses(part.locals.size());
  const auto lists = lists_of(part);
  for (size_t list = 0; list < kLists; ++list)
    for (size_t i = 0; i < lists[list]->instructions.size(); ++i)
      for (const int local : locals_touched(model, part, lists[list]->instructions[i]))
        if (const auto root = static_cast<size_t>(root_of(part, local));
            !part.locals[root].persistent())
          uses[root].extend(list, i);
  return uses;
}

}  // namespace kerf::partitioner
