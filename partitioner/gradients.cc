#include "partitioner/gradients.h"

#include <algorithm>

#include "partitioner/at.h"

namespace kerf::partitioner {

// From the last node to the first.
Gradients::Gradients(const Model& model, bool trains)
    : of_value_(at(model.values())), through_(at(model.nodes())) {
  if (!trains) return;
  for (NodeId node = model.nodes() - 1; node >= 0; --node) {
    const auto& outputs = model.node(node).outputs;
    if (node == model.loss()) of_value_[at(outputs[0])] = model.needs_gradient(outputs[0]);
    through_[at(node)] = std::any_of(outputs.begin(), outputs.end(),
                                     [&](ValueId output) { return of_value_[at(output)]; });
    if (!through_[at(node)]) continue;
    const auto& operands = model.op(node).inputs();
    for (size_t k = 0; k < operands.size(); ++k)
      if (operands[k].in_input_gradient() || operands[k].in_weight_gradient())
        of_value_[at(model.node(node).inputs[k])] = true;
  }
}

}  // namespace kerf::partitioner
