// Random models and random layouts of them, for properties that hold for every cut.
//
// Models are Gemm, Relu and Add with branches, skips and fan-out. Layouts are what cuts may make of
// them and more: whole, replicated, uneven and scattered index sets, sets with replicas, partial
// sums.
#pragma once

#include <random>
#include <vector>

#include "partitioner/connector.h"

namespace kerf::partitioner {

using Random = std::mt19937;

Model random_model(Random& random);

struct LayoutKinds {
  bool partial_sums = true;  // no operator produces them yet, connectors carry them
};
// Of every activation over `parts` parts; the loss is whole somewhere.
std::vector<ops::Layout> random_layouts(const Model& model, int parts, Random& random,
                                        const LayoutKinds& kinds = {});

// Small whole numbers, so that every sum of their products is exact in float32.
std::vector<float> random_numbers(size_t count, Random& random);

}  // namespace kerf::partitioner
