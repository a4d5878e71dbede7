// The models that the planner's tests share: small, and each with something that a chain has not.
#pragma once

#include <string>
#include <vector>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/zoo.h"

namespace kerf::partitioner::testing {

//      x ── a ── relu ──┬── b ── relu ──┬── (+) ── c ── loss
//                       └───── skip ────┘
inline Model skip_model() {
  Builder b("skip");
  const ValueId x = b.input("x", {ops::kBatch, 12});
  const ValueId h = b.relu(b.gemm(x, 16, "a"), "a_relu");
  b.loss(b.gemm(b.add(h, b.relu(b.gemm(h, 16, "b"), "b_relu"), "sum"), 10, "c"));
  return b.build();
}

// Two branches of unequal cost from one value, which meet again.
inline Model branch_model() {
  Builder b("branch");
  const ValueId x = b.input("x", {ops::kBatch, 12});
  const ValueId trunk = b.relu(b.gemm(x, 20, "trunk"), "trunk_relu");
  const ValueId thick = b.gemm(b.relu(b.gemm(trunk, 64, "thick1"), "thick_relu"), 14, "thick2");
  const ValueId thin = b.gemm(trunk, 14, "thin");
  b.loss(b.gemm(b.relu(b.add(thick, thin, "meet"), "meet_relu"), 10, "last"));
  return b.build();
}

inline Model small_mlp() { return make_zoo_model("mlp", {{20, 16, 12, 10}}); }

inline std::vector<Model> sample_models() {
  return {small_mlp(), make_zoo_model("lenet5"), skip_model(), branch_model()};
}

inline PlanRequest request_of(Cut cut, int workers, int64_t batch = 30, int micro_batches = 4) {
  PlanRequest request;
  request.cut = cut;
  request.workers = workers;
  request.batch = batch;
  request.micro_batches = micro_batches;
  if (cut == Cut::kFree) request.shares = R"({"kerf_shares": 1, "shares": {}})";
  return request;
}

inline Plan plan_of(const Model& model, const PlanRequest& request) {
  return std::get<Plan>(make_plan(model, request, *hold_everything()));
}

// Every model under every cut that it can honour.
struct Planned {
  Model model;
  Plan plan;
};
inline std::vector<Planned> sample_plans() {
  std::vector<Planned> result;
  for (const Model& model : sample_models())
    for (const int workers : {1, 2, 3})
      result.push_back({model, plan_of(model, request_of(Cut::kLayer, workers))});
  for (const Model& model : {small_mlp(), skip_model(), branch_model()})
    for (size_t row = 0; row < cuts().size(); ++row)
      for (const int workers : {2, 3, 4}) {
        PlanRequest request = request_of(static_cast<Cut>(row), workers);
        // Groups go by feature, which follows from the cut.
        if (request.cut == Cut::kHybrid) request.by_feature.set();
        result.push_back({model, plan_of(model, request)});
      }
  return result;
}

// The message of the Error{kUsage or kInfeasible} that `act` throws; "" if it throws none.
template <class Act>
std::string complaint(const Act& act, ErrorCode code = ErrorCode::kUsage) {
  try {
    act();
  } catch (const Error& error) {
    return error.code() == code ? error.what() : "another code: " + std::string(error.what());
  }
  return {};
}

}  // namespace kerf::partitioner::testing
