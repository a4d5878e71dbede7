// Random models and random divisions of them, for properties that hold for every cut.
//
// Models are Gemm, Relu and Add with branches, skips and fan-out. Divisions are what cuts may make
// of them and more: whole, replicated, even, scattered, with replicas, along any axis of the
// iterations that may be divided (features, samples, sums), or along two as a grid.
#pragma once

#include <random>
#include <vector>

#include "partitioner/connector.h"

namespace kerf::partitioner {

using Random = std::mt19937;

Model random_model(Random& random);

struct Kinds {
  bool partial_sums = true;  // of activations; the loss may be divided by samples either way
};
// Of every node over `parts` parts for micro-batches of `largest` samples at most. Units stay
// together, and what must be is contiguous. The loss is whole or divided by samples.
Division random_division(const Model& model, int parts, int64_t largest, Random& random,
                         const Kinds& kinds = {});

// Small whole numbers, so that every sum of their products is exact in float32.
std::vector<float> random_numbers(size_t count, Random& random);

}  // namespace kerf::partitioner
