// Random models of all kinds of operators, for properties that hold for every model: branches,
// skips, ties, nodes of several outputs, tensors of rank 2 to 4 with the batch on axis 0 or 1 and
// several rows a sample, embeddings, states, frozen parameters and constants. Every other one has
// its channels last around convolutions.
#pragma once

#include "partitioner/model.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::partitioner {

enum class Family {
  // Linear operators, Relu, pooling (averages over 4), embedding and reshaping, and a weighted sum
  // for a loss: small whole numbers stay exact in float32.
  kExact,
  // Those, and normalisation, softmax, attention, recurrence, cross-entropy.
  kAny,
  // Those, and products with parameters that are repeated, and differences from them.
  kScaled,
};

Model random_net(Family family, Random& random);
// All in ONNX's order.
Model random_net_of_onnx(Family family, Random& random);

}  // namespace kerf::partitioner
