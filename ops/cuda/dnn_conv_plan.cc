#include "ops/cuda/dnn_conv_plan.h"

#include <algorithm>
#include <array>

namespace kerf::ops::cuda {
namespace {

using Sizes = std::array<int64_t, 4>;  // samples or filters, channels, rows, columns

// Eight partial gradients are as many as split sums gain from; more than 128 MiB are not granted.
constexpr int64_t kMostPartialGradients = 8;
constexpr int64_t kMostOfTensors = int64_t{128} << 20;
constexpr int64_t kTensorAlignment = 16;  // the widest load; tensors have more

// What cuDNN calls the parts of an operation.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};

Names names_of(DnnConvKind kind) {
  switch (kind) {
    case DnnConvKind::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case DnnConvKind::kInputGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

Sizes sizes_of_x(const DnnConvProblem& p) {
  return {p.samples, p.groups * p.channels, p.window.input[0], p.window.input[1]};
}
Sizes sizes_of_w(const DnnConvProblem& p) {
  return {p.groups * p.filters, p.channels, p.window.kernel[0], p.window.kernel[1]};
}
Sizes sizes_of_y(const DnnConvProblem& p) {
  return {p.samples, p.groups * p.filters, p.window.output[0], p.window.output[1]};
}

int64_t bytes_of(const Sizes& sizes) {
  return sizes[0] * sizes[1] * sizes[2] * sizes[3] * int64_t{sizeof(float)};
}

Sizes strides_of(const Sizes& sizes, ImageFormat format) {
  const auto [count, channels, rows, columns] = sizes;
  if (format == ImageFormat::kChannelsLast)
    return {rows * columns * channels, 1, columns * channels, channels};
  return {channels * rows * columns, rows * columns, columns, 1};
}

// Behind the input there may be any padding of which no further window comes: as much as before it,
// where that is possible, for engines want it so.
Extent2 pads_behind(const Window& window) {
  Extent2 pads{};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t least =
        (window.output[i] - 1) * window.strides[i] + reach - window.pads_begin[i] - window.input[i];
    pads[i] = std::clamp(window.pads_begin[i], std::max<int64_t>(0, least),
                         least + window.strides[i] - 1);
  }
  return pads;
}

DnnDescriptor make_tensor(const Queue& queue, int64_t id, const Sizes& sizes, ImageFormat format) {
  DnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, queue);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(sizes));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides_of(sizes, format)));
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kTensorAlignment);
  tensor.finalize();
  return tensor;
}

// An engine that is not for this graph or this GPU after all, though a heuristic names it. Memory
// that is short, or a library that is not whole, would change the choice from run to run.
bool passes_over(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    return false;
  const int category = CUDNN_STATUS_CATEGORY(status);
  return is_unsupported(status) || category == CUDNN_STATUS_BAD_PARAM ||
         category == CUDNN_STATUS_INTERNAL_ERROR;
}

DnnDescriptor make_convolution(const Queue& queue, const DnnConvProblem& problem) {
  const Window& window = problem.window;
  DnnDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, queue);
  const auto set = [&](cudnnBackendAttributeName_t name, const Extent2& extent) {
    convolution.set(name, std::span<const int64_t>(extent));
  };
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  set(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilations);
  set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.strides);
  set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.pads_begin);
  set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pads_behind(window));
  convolution.finalize();
  return convolution;
}

std::optional<DnnConvPlan::Graph> make_graph(const Queue& queue, const DnnTarget& target,
                                             const DnnConvProblem& problem) {
  const Names names = names_of(problem.kind);
  DnnConvPlan::Graph graph{
      {}, {names.operation, queue}, {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, queue}};
  const auto give = [&](cudnnBackendAttributeName_t name, DnnDescriptor part) {
    graph.operation.set(name, graph.parts.emplace_back(std::move(part)));
  };
  give(names.convolution, make_convolution(queue, problem));
  give(names.x, make_tensor(queue, DnnConvPlan::kIdOfX, sizes_of_x(problem), problem.format));
  give(names.w,
       make_tensor(queue, DnnConvPlan::kIdOfW, sizes_of_w(problem), ImageFormat::kChannelsFirst));
  give(names.y, make_tensor(queue, DnnConvPlan::kIdOfY, sizes_of_y(problem), problem.format));
  graph.operation.set(names.alpha, 1.0F);
  graph.operation.set(names.beta, problem.accumulate ? 1.0F : 0.0F);
  graph.operation.finalize();
  target.give_graph(graph.whole);
  graph.whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, graph.operation);
  const cudnnStatus_t status = graph.whole.try_finalize();
  if (is_unsupported(status)) return std::nullopt;
  check_cudnn(status, "cudnnBackendFinalize", queue);
  return graph;
}

std::vector<DnnDescriptor> configurations(const Queue& queue, const DnnTarget& target,
                                          const DnnConvPlan::Graph& graph,
                                          cudnnBackendHeurMode_t mode) {
  DnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, queue);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.whole);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  target.give_heuristic(heuristic);
  const cudnnStatus_t status = heuristic.try_finalize();
  if (is_unsupported(status)) return {};
  check_cudnn(status, "cudnnBackendFinalize", queue);
  return heuristic.descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                               heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS));
}

// Whether an engine computes as it is wanted.
bool is_strict(const DnnDescriptor& configuration) {
  const auto engines =
      configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engines.empty()) return false;
  const auto numbers = engines.front().get<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const auto behavior = engines.front().get<cudnnBackendBehaviorNote_t>(
      CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  // All other notes there are say that a result is rounded otherwise, or not always alike.
  return std::all_of(numbers.begin(), numbers.end(),
                     [](auto note) { return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP; }) &&
         std::find(behavior.begin(), behavior.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) ==
             behavior.end();
}

// Whether an engine computes something else. Of cuDNN's engines for weights' gradients, 1 does
// where the pads before an image differ from those behind it: seen with cuDNN 9 on an H100, where
// no other engine that is strict was wrong, nor this one where they are alike.
bool is_defective(const DnnDescriptor& configuration, const DnnConvProblem& problem) {
  constexpr int64_t kOfEvenPads = 1;
  if (problem.kind != DnnConvKind::kWeightGradient ||
      pads_behind(problem.window) == problem.window.pads_begin)
    return false;
  const auto engines =
      configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  return engines.front().get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1) ==
         std::vector<int64_t>{kOfEvenPads};
}

}  // namespace

int64_t most_workspace(const DnnConvProblem& problem) {
  const int64_t weights = bytes_of(sizes_of_w(problem));
  const int64_t most = bytes_of(sizes_of_x(problem)) + bytes_of(sizes_of_y(problem)) +
                       (1 + kMostPartialGradients) * weights;
  return std::min(most, kMostOfTensors);
}

std::optional<DnnConvPlan> make_plan(const DnnConvProblem& problem, const DnnTarget& target,
                                     const Queue& queue, int rank) {
  std::optional<DnnConvPlan::Graph> graph = make_graph(queue, target, problem);
  if (!graph) return std::nullopt;
  const int64_t most = most_workspace(problem);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (DnnDescriptor& configuration : configurations(queue, target, *graph, mode)) {
      if (!is_strict(configuration) || is_defective(configuration, problem)) continue;
      DnnDescriptor execution(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, queue);
      target.give_plan(execution);
      execution.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      const cudnnStatus_t status = execution.try_finalize();
      if (status != CUDNN_STATUS_SUCCESS && passes_over(status)) continue;
      check_cudnn(status, "cudnnBackendFinalize", queue);
      const auto wanted = execution.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1);
      if (wanted.empty() || wanted.front() > most || rank-- > 0) continue;
      return DnnConvPlan{std::move(*graph), std::move(configuration), std::move(execution),
                         wanted.front()};
    }
  return std::nullopt;
}

}  // namespace kerf::ops::cuda
