// Plans of models that a cut has rewritten for itself, and what their steps must come to.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "partitioner/cut.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner {

struct Made {
  Model model;
  Plan plan;
};

// Of 10 rows in 3 micro-batches: of 4 rows at most. `shares`: of a free cut, by node.
inline Made made_by(const Model& model, Cut cut, int workers, const std::string& shares = {}) {
  PlanRequest request;
  request.cut = cut;
  request.workers = workers;
  request.batch = 10;
  request.micro_batches = 3;
  request.minimise = Minimise::kForwardFlops;
  if (!shares.empty()) request.shares = "{\"kerf_shares\": 1, \"shares\": " + shares + "}";
  request.shares_origin = "shares.json";
  Model rewritten = model_for(model, request);
  Plan plan = std::get<Plan>(make_plan(rewritten, request, *hold_everything()));
  return {std::move(rewritten), std::move(plan)};
}

// Losses, gradients and parameters, whose names no rewrite changes.
inline void expect_same_steps(StepResult got, StepResult expected, float tolerance) {
  got.values.clear();
  expected.values.clear();
  expect_close(got, expected, tolerance);
}

}  // namespace kerf::partitioner
