// GatherElements (ONNX, opset 13): of every element its own index along an axis.
//
//   data [d...]   indices [i...], of as many axes, none longer   output [i...]
//   output[p] = data[p with indices[p] in place of axis]
//
// Any element type. Iterations: the output's axes, those beside `axis` as long as the data's, of
// which indices and output are the first part; and the vocabulary, as Gather has it.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class GatherElements final : public BoundOperator {
 public:
  explicit GatherElements(const NodeFacts& facts);

  int axis() const { return axis_; }
  int vocabulary() const { return static_cast<int>(space_.axes.size()) - 1; }  // iteration axis

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int axis_;
};

}  // namespace kerf::ops
