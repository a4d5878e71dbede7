// Recomputation: a stage forgets what a forward made, but for what it was sent, and makes it again
// before the gradients (activation checkpointing: Griewank and Walther 2000; Chen et al. 2016;
// GPipe, Huang et al. 2019).
//
//   F  receive x; a = conv(x); b = relu(a); send b           nothing but x stays
//   A  a = conv(x); b = relu(a)                               RECOMPUTE: only what gradients read
//   B  gradients of relu and conv, from a, b and x
//
// Data is read again, random numbers are functions of where they stand, and statistics are written
// twice with the same bits: nobody else can tell. Pure function.
#pragma once

#include "partitioner/part.h"

namespace kerf::partitioner {

// Fills the part's checkpointed_forward and recompute, from its forward list and those of
// gradients, as they are before memory is thought of, and says which locals are `entered`.
void add_recomputation(const Model& model, Part& part);

}  // namespace kerf::partitioner
