// Plans that a person steers, for the tests of what can be asked: devices, patterns, ways, places.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/partitioner/sample_models.h"
#include "tests/support/errors.h"

namespace kerf::partitioner::testing {

// Of the error that `body` throws, with its place.
template <class Body>
std::string message_of(const Body& body) {
  const auto error = tests::error_of(body);
  return error ? error->what() : "no error";
}

Capacities with_speeds(const std::vector<double>& speeds);

// Of which nothing is asked yet.
PlanRequest free_request(int workers);

// A sound plan.
Plan made(const Model& model, const PlanRequest& request);

// Whether a division into a stage for each worker, by the worker of each node, meets what is asked.
using Accept = std::function<bool(const std::vector<int>& worker_of)>;
// That a layer cut is as good as the best of all divisions that meet it, and proves it; where
// operators are placed, that its bound is not above that one.
void expect_least(const Model& model, const PlanRequest& request, const Accept& accept);

}  // namespace kerf::partitioner::testing
