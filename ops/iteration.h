// Iterations: the ways to divide an operator.
//
// An operator bound to a node names its iteration axes, the loops that compute it, and which of
// them each operand has. A call computes a box of iterations; the boxes of its operands follow:
//
//   Gemm      iterations  rows  columns  inner
//             A           rows           inner        needs rows x inner
//             B                 columns  inner
//             Y           rows  columns               a partial sum where `inner` is divided
//             dA          rows           inner        a partial sum where `columns` is divided
//             dB                columns  inner        a partial sum where `rows` is divided
//
// That is the one rule for feature and batch division, row-parallel layers, weight gradients,
// input gradients and statistics: an operand is partial over the divided axes that it lacks.
// (Einsum-like iteration spaces divide all of deep learning's operators so: Jia et al. 2018
// "Beyond data and model parallelism"; Wang et al. 2019 "Supporting very large models using
// automatic dataflow graph partitioning".) Plain values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace kerf::ops {

// What an axis means to a cut.
enum class AxisKind : uint8_t {
  kSample,   // the batch
  kFeature,  // neurons, channels, heads: what a feature cut divides
  kSpace,    // height, width, time
  kSummed,   // of products: the results are sums over it
  kOther,
};

struct IterationAxis {
  AxisKind kind = AxisKind::kOther;
  std::string name = {};       // for people: "rows", "output channels"
  int64_t extent = 1;          // c * kBatch where it counts samples
  int64_t unit = 1;            // so many consecutive indices stay together: a group, a head
  bool contiguous = false;     // a call computes a range of it only
  std::string undivided = {};  // why it cannot be divided; empty: it can
};

// A window that slides over an operand's axis: iteration o reads input indices
// o * stride - pad + k * dilation, k in [0, kernel), as far as they exist.
struct SlidingWindow {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad = 0;
};

// How one axis of an operand follows from the iterations.
struct OperandAxis {
  // Index = the iteration axes' indices flattened, the first the slowest. Empty: all of the axis.
  std::vector<int> axes = {};
  std::optional<SlidingWindow> window = {};  // over the one iteration axis in `axes`
  int64_t offset = 0;  // of the operand's index 0 along the one iteration axis in `axes`: operands
                       // that are stretches of it (Concat's inputs, Split's outputs)
  // Index i of the one iteration axis in `axes` touches [segments[i], segments[i + 1]) of the
  // operand: slices of classes; of an axis of one index, one index of several (a direction).
  std::vector<int64_t> segments = {};
};

struct OperandMap {
  std::vector<OperandAxis> axes = {};  // of the operand
  // A bias: though it lacks this iteration axis, only the call that has index 0 of it uses it.
  int first_of = -1;
};

struct IterationSpace {
  std::vector<IterationAxis> axes = {};
  std::vector<OperandMap> inputs = {};  // absent inputs too
  std::vector<OperandMap> outputs = {};

  Shape extents() const;
  int find(const std::string& name) const;  // -1 if there is no axis of this name
};

// Whether a change of index along the iteration axis changes what is touched of the operand.
bool has_axis(const OperandMap& map, int axis);

// ---- spaces of common shapes

// One iteration axis per axis of a tensor: samples, features (axis 1 of images and rows, the last
// of sequences), space.
std::vector<IterationAxis> axes_of_tensor(const Shape& shape);
// An operand whose axes follow these iteration axes; those without any are needed whole.
OperandMap operand_axes(const std::vector<std::vector<int>>& axes, int first_of = -1);
// An operand with exactly the axes [0, rank) of the space, and one repeated over `shape` as NumPy
// broadcasts, from the last axis backwards.
OperandMap same_axes(int rank);
OperandMap broadcast_axes(const Shape& operand, const Shape& shape);

// The range of `extent` input indices that a range of windows reads; at least one index.
IndexSet under_windows(const SlidingWindow& window, const IndexSet& outputs, int64_t extent);

// In what follows `samples` are those of the largest micro-batch that boxes were made for: index
// sets of symbolic axes refer to it. `operand` is the operand's global shape, maybe symbolic.

// What the box of iterations touches of the operand. Normalized; empty where nothing is.
Box operand_box(const IterationSpace& space, const OperandMap& map, const Shape& operand,
                const Box& iterations, int64_t samples);
// Of the iteration axes that the operand lacks, in order: the slices of a partial sum; empty where
// all are whole and nothing is partial.
std::vector<IndexSet> partial_slices(const IterationSpace& space, const OperandMap& map,
                                     const Box& iterations);
// The largest box of iterations that touches exactly `box` of the operand; nothing where there is
// none (half a channel of a flattened tensor).
std::optional<Box> iterations_of(const IterationSpace& space, const OperandMap& map,
                                 const Shape& operand, const Box& box, int64_t samples);
// Why no single call can compute this box of iterations: it divides what must be whole, a unit, or
// has gaps where a call computes a range; empty if one can.
std::string check_iterations(const IterationSpace& space, const Box& iterations, int64_t samples);

}  // namespace kerf::ops
