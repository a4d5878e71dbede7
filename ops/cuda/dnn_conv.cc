#include "ops/cuda/dnn_conv.h"

#include <array>

#include "ops/cuda/library_workspace.h"
#include "runtime/error.h"

namespace kerf::ops::cuda {
namespace {

// The GPU of a handle.
class HandleTarget final : public DnnTarget {
 public:
  explicit HandleTarget(cudnnHandle_t handle) : handle_(handle) {}
  void give_graph(DnnDescriptor& graph) const override {
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle_);
  }
  void give_heuristic(DnnDescriptor&) const override {}  // the graph's
  void give_plan(DnnDescriptor& plan) const override {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_);
  }

 private:
  cudnnHandle_t handle_;
};

}  // namespace

int64_t DnnConv::workspace_bytes(const DnnConvProblem& problem) {
  return static_cast<int64_t>(with_library_alignment(static_cast<size_t>(most_workspace(problem))));
}

std::optional<DnnConvPlan>& DnnConv::plan_of(const DnnConvProblem& problem) {
  const auto at = plans_.find(problem);
  if (at != plans_.end()) return at->second;
  return plans_
      .emplace(problem, make_plan(problem, HandleTarget(bench_.cudnn()), bench_.queue(), rank_))
      .first->second;
}

void DnnConv::run(const DnnConvProblem& problem, const Tensors& tensors, Workspace workspace) {
  const std::optional<DnnConvPlan>& plan = plan_of(problem);
  KERF_CHECK(plan.has_value(), "cuDNN was asked to do what it has no engine for");
  const Queue& queue = bench_.queue();
  const int64_t granted = workspace_bytes(problem);
  void* scratch =
      aligned_for_library({workspace.take<std::byte>(granted), static_cast<size_t>(granted)});
  const std::array<int64_t, 3> ids{DnnConvPlan::kIdOfX, DnnConvPlan::kIdOfW, DnnConvPlan::kIdOfY};
  const std::array<void*, 3> data{tensors.x, tensors.w, tensors.y};
  DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, queue);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(ids));
  pack.set_addresses(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data);
  pack.set_addresses(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&scratch, 1});
  pack.finalize();
  check_cudnn(cudnnBackendExecute(bench_.cudnn(), plan->execution.native(), pack.native()),
              "cudnnBackendExecute", queue);
}

}  // namespace kerf::ops::cuda
