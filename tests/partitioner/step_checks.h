// Plans for tests of lowering, and what their steps must come to.
#pragma once

#include <string>
#include <vector>

#include "partitioner/cut.h"
#include "tests/partitioner/part_runner.h"

namespace kerf::partitioner {

inline const std::vector<int64_t> kUnequal = {4, 3, 3};

// x -> a -> b -> loss, where a and b have one weight.
Model tied();

// Of 10 rows, in 3 micro-batches: of 4 rows at most.
Plan plan_of(const Model& model, Cut cut, int workers, const std::string& shares = {},
             int micro_batches = 3);
// One stage of all parts, as a feature cut has.
Plan plan_of(const Model& model, Division division, int parts);

// The transient region is at most 5 % larger than what lives in it at once, in a single pass 8 %;
// the others hold nothing but what lives at once anyway.
void expect_dense(const Model& model, const Plan& plan, bool gradients = true);

// Runs a step, which keeps its promises: I and W apart, and B, which give the same bits.
StepResult run(const Model& model, const Plan& plan, const std::vector<int64_t>& sizes = kUnequal,
               Numbers numbers = Numbers::kNormal);

// Losses, forward values, gradients and what the update makes of the parameters. 0: equal, but for
// the sign of a 0.
void expect_close(const StepResult& got, const StepResult& expected, float tolerance);
void expect_same_bits(const StepResult& got, const StepResult& expected);

// The same nodes with a weighted sum as loss: whole numbers stay exact. Nodes have one output.
Model with_sum_loss(const Model& model);

}  // namespace kerf::partitioner
