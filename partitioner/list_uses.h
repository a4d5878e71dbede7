// Where in a part's instruction lists each local is used.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "partitioner/part.h"

namespace kerf::partitioner {

// The lists of a micro-batch (I and W run apart, or B instead of both; F that is checkpointed and
// its recomputation instead of F), that of an update within a step, and those of a step.
enum ListIndex : size_t {
  kF,
  kI,
  kW,
  kB,
  kCheckpointed,
  kRecomputed,
  kApply,
  kContribute,
  kReduce,
  kConclude,
  kUpdate,
  kFetch,
  kLists
};
std::array<InstructionList*, kLists> lists_of(Part& part);

struct InstructionRange {  // within one list: instructions
  size_t first = 0;
  size_t last = 0;
};

struct ListUses {
  std::array<std::optional<InstructionRange>, kLists> in;
  bool in_list(size_t list) const { return in[list].has_value(); }
  bool in_any() const {
    return std::ranges::any_of(in, [](const auto& range) { return range.has_value(); });
  }
  void extend(size_t list, size_t index);
};

// By local, of all that are not persistent; an alias counts as its root.
std::vector<ListUses> uses_of_locals(const Model& model, Part& part);

}  // namespace kerf::partitioner
