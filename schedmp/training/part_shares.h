// What of a model's kept tensors a part has, by the plan's layouts: what workers save. A pure
// function.
#pragma once

#include <vector>

#include "ops/layout.h"
#include "partitioner/model.h"

namespace kerf::schedmp {

struct PartShare {
  partitioner::ValueId value;
  const ops::Share* share;  // of the layout
  bool first;               // with its box: others have copies
};

// In the model's order; not of literals.
std::vector<PartShare> shares_of_part(const partitioner::Model& model,
                                      const std::vector<ops::Layout>& layouts, int part);

}  // namespace kerf::schedmp
