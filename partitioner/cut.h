// Cuts: the strategies that fill in layouts and stages. A cut is one file in cuts/.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "partitioner/objective.h"
#include "partitioner/plan.h"
#include "partitioner/setting.h"

namespace kerf::partitioner {

enum class Minimise : uint8_t { kTime, kForwardFlops };

struct PlanRequest {
  Cut cut = Cut::kLayer;
  int workers = 1;             // parts, where a placement binds them
  std::vector<int> placement;  // part -> worker; empty: each to the worker of its number
  int stages = 0;              // hybrid: 0 means 2 (1 for one worker); others ignore it
  int64_t batch = 128;
  int micro_batches = 8;
  std::string schedule = "1f1b";
  std::optional<int64_t> memory;  // bytes per worker
  Minimise minimise = Minimise::kTime;
  Setting setting;
  std::string shares;  // free cut: text of the shares file
  std::string shares_origin;
  DeviceSpeed speed;
};

// What a cut fills in. Activations' layouts only; parts are 0..parts-1.
struct Assignment {
  std::vector<Stage> stages;
  std::vector<ops::Layout> layouts;  // by value
  double bottleneck = 0;
  double bound = 0;
};

// No plan meets the memory cap: the stage that needs most over it, and what would fit.
struct Infeasible {
  int stage = 0;
  int64_t cap = 0;
  int64_t over = 0;             // bytes
  std::string smallest_change;  // "--memory 52428800", "--workers 4", "--micro-batches 16"
  std::string text() const;
};

// Throws Error{kInfeasible} for more workers than operators, Error{kUsage} for a layout refused by
// name or a bad shares file.
std::variant<Plan, Infeasible> make_plan(const Model& model, const PlanRequest& request,
                                         const Objective& objective);

// The cuts. Contiguous segments of topological orders (dynamic programming, minimum bottleneck,
// then minimum bytes) under the cap; every operator over all workers; stages times groups; any
// index sets.
//
// The layer cut bounds memory while it searches, and what a division takes shows only on the plan:
// candidates, best first, of which the first that meets the cap is the answer; empty if none can.
std::vector<Assignment> cut_layer(const Model& model, const PlanRequest& request,
                                  const Objective& objective);
// Whatever the cap: the best without one, and the division that needs least.
std::vector<Assignment> cut_layer_without_cap(const Model& model, const PlanRequest& request,
                                              const Objective& objective);
Assignment cut_feature(const Model& model, const PlanRequest& request);
Assignment cut_hybrid(const Model& model, const PlanRequest& request);
Assignment cut_free(const Model& model, const PlanRequest& request);

// Predictions of a plan whose layouts, stages, binding and routes are set.
std::vector<WorkerPrediction> predict(const Model& model, const Plan& plan,
                                      const PlanRequest& request, const Objective& objective);

}  // namespace kerf::partitioner
