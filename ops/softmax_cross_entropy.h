// SoftmaxCrossEntropyLoss (ONNX, opset 13) with reduction "mean": what training starts from.
//
//   scores [N, C]   labels [N] int64   loss: scalar
//
// The mean is over the whole step: forward gives the sum over this micro-batch's rows divided by
// Call::normaliser, so that a step's loss is the sum over its micro-batches. A label outside [0, C)
// throws Error{kUsage} that names row and value. Scores are needed whole: all classes of a sample.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_softmax_cross_entropy();

}  // namespace kerf::ops
