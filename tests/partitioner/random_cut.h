// Random models and random divisions of them, for properties that hold for every cut.
//
// Models are Gemm, Relu and Add with branches, skips and fan-out. Divisions are what cuts may make
// of them and more: whole, replicated, even, scattered, with replicas, along any axis of the
// iterations that may be divided (features, samples, sums), or along two as a grid.
#pragma once

#include <random>
#include <vector>

#include "partitioner/plan.h"

namespace kerf::partitioner {

using Random = std::mt19937;

inline int draw(Random& random, int64_t below) {
  return std::uniform_int_distribution<int>(0, static_cast<int>(below) - 1)(random);
}

Model random_model(Random& random);

struct Kinds {
  bool partial_sums = true;  // of activations; the loss may be divided either way
};
// Of one node over some of `parts`.
ops::Layout random_layout(const Model& model, NodeId node, std::vector<int> parts, int64_t largest,
                          Random& random, const Kinds& kinds = {});
// Of every node over `parts` parts for micro-batches of `largest` samples at most. Units stay
// together, and what must be is contiguous.
Division random_division(const Model& model, int parts, int64_t largest, Random& random,
                         const Kinds& kinds = {});

struct Placing {
  int workers = 3;      // at most
  int stages = 4;       // at most
  bool divides = true;  // false: a layer cut, every stage on one worker
  int64_t batch = 8;
  int micro_batches = 3;
  std::vector<int64_t> given_sizes = {};  // rows of each of them; empty: as even as can be

  // Of each any number, so that all have `batch`.
  void give_sizes(Random& random);
};
// A whole plan: stages along a random topological order, each over the parts of a random group of
// workers (a worker may be in several), its nodes divided at random. It is sound: validate() says
// so.
Plan random_plan(const Model& model, const Placing& placing, Random& random);

// Small whole numbers, so that every sum of their products is exact in float32.
std::vector<float> random_numbers(size_t count, Random& random);

}  // namespace kerf::partitioner
