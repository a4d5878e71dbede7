// Plans of convolutions of float32 images by cuDNN's graph interface. Each is a graph of one
// operation:
//
//   kForward         Y = X * W
//   kInputGradient   dX = dY * W
//   kWeightGradient  dW = X * dY (+ dW)
//
// X [N, C, H, W] and Y [N, O, H', W'] lie channels first or last; W is [O, C/groups, kh, kw] in
// both, which cuDNN lays anew by itself where an engine wants it so.
//
// The engine is the first in the order of cuDNN's heuristics that computes and adds in float32 (no
// TF32), in a fixed order, each result from its own products (neither FFT nor Winograd, which round
// coarser and carry a NaN to neighbours), that is compiled beforehand, is not known to be wrong
// (ADR 28) and takes no more than the granted workspace. Any one thread at a time.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/cuda/dnn_descriptor.h"
#include "ops/image_format.h"
#include "ops/window.h"

namespace kerf::ops::cuda {

enum class DnnConvKind : uint8_t { kForward, kInputGradient, kWeightGradient };

struct DnnConvProblem {
  DnnConvKind kind = DnnConvKind::kForward;
  ImageFormat format = ImageFormat::kChannelsFirst;
  int64_t samples = 0;
  int64_t groups = 0;
  int64_t channels = 0;  // of a group
  int64_t filters = 0;   // of a group
  Window window;
  bool accumulate = false;  // kWeightGradient only
  auto operator<=>(const DnnConvProblem&) const = default;
};

// For which GPU a plan is made.
class DnnTarget {
 public:
  virtual ~DnnTarget() = default;
  // Sets what says so.
  virtual void give_graph(DnnDescriptor& graph) const = 0;
  virtual void give_heuristic(DnnDescriptor& heuristic) const = 0;
  virtual void give_plan(DnnDescriptor& plan) const = 0;
};

struct DnnConvPlan {
  static constexpr int64_t kIdOfX = 1;
  static constexpr int64_t kIdOfW = 2;
  static constexpr int64_t kIdOfY = 3;
  struct Graph {
    std::vector<DnnDescriptor> parts;  // tensors and the convolution
    DnnDescriptor operation;
    DnnDescriptor whole;
  };
  // What an execution plan was made of goes after it.
  Graph graph;
  DnnDescriptor configuration;
  DnnDescriptor execution;
  int64_t workspace = 0;  // bytes
};

// What a problem, or one of fewer samples, may take of workspace: room for its tensors laid anew,
// and for partial sums of the weights' gradient.
int64_t most_workspace(const DnnConvProblem& problem);
// By the engine that, of those that will do, is the rank-th in the order of heuristics. Nothing
// where cuDNN has none. Throws as check_cudnn() does.
std::optional<DnnConvPlan> make_plan(const DnnConvProblem& problem, const DnnTarget& target,
                                     const Queue& queue, int rank = 0);

}  // namespace kerf::ops::cuda
