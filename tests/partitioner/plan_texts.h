// What the tests of plans as text share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "partitioner/stage_graph.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner::testing {

// What follows from a plan's decisions, as its text may leave it out.
inline const std::vector<std::string> kFollows = {"layouts",    "routes", "workers",
                                                  "bottleneck", "bound",  "checksum"};

// All but the bound, which nothing but the cut knows.
inline void expect_same_but_for_bound(Plan plan, const Plan& expected) {
  plan.bound = expected.bound;
  EXPECT_EQ(plan, expected) << expected.model << " " << to_string(expected.cut);
}

// A schedule of which every stage holds one micro-batch at a time.
class OneInFlight : public InFlight {
 public:
  std::vector<Flight> of(const Pipeline& pipeline, int) const override {
    return std::vector<Flight>(pipeline.groups.size(), {1, 1, 0});
  }
};

// By samples, by inputs, by both; the loss by samples.
inline Plan divided_plan(const Model& model) {
  PlanRequest request = request_of(Cut::kFree, 2, 30, 4);  // micro-batches of 8 and 7
  request.shares = R"({"kerf_shares": 1, "shares": {
      "fc1": {"0": {"inputs": "0-9,19"}, "1": {"inputs": "10-18"}},
      "relu1": {"0": {"samples": "0,2,4-5"}, "1": {"samples": "1,3,6-7"}},
      "fc2": {"0": {"samples": "0-3"}, "1": {"samples": "4-7"}},
      "fc3": {"0": {"outputs": "0-3,9", "inputs": "0-11"}, "1": "4-8"},
      "loss": {"0": {"samples": "0-6"}, "1": {"samples": "7"}}}})";
  return plan_of(model, request);
}

}  // namespace kerf::partitioner::testing
