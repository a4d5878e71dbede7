// Softmax, or its logarithm, over a divided axis:
//
//   X --SegmentLogSumExp--> maximum, log_sum    per segment of the axis
//   X, maximum, log_sum --SegmentSoftmax--> Y   of all segments
//
// The numbers are the segments' boundaries: wherever a share of the axis begins or ends. X and Y
// stay where they are; per line two numbers a segment travel.
#include <algorithm>

#include "ops/image_format.h"
#include "partitioner/rewrite.h"
#include "partitioner/rewrites/segments.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;

int axis_of(const Node& node) {
  return ops::resolved_axis(node.op, ops::attribute_int(node.attributes, "axis", -1),
                            node.bound->inputs()[0].spec.shape.rank());
}

std::vector<int64_t> boundaries_along_axis(const Node& node, const Layout& division,
                                           int64_t /*largest*/) {
  const auto axis = static_cast<size_t>(axis_of(node));
  return segment_boundaries(division, axis, node.bound->space().axes[axis].extent);
}

std::vector<ValueId> replace_softmax(const Node& node, const std::vector<ValueId>& inputs,
                                     const std::vector<int64_t>& boundaries, Model& to) {
  const auto axis = int64_t{axis_of(node)};
  const NodeId segments = to.add_node(node.name + ".segments", "SegmentLogSumExp",
                                      {{"boundaries", boundaries}, {"axis", axis}}, {inputs[0]}, 2);
  const std::vector<ValueId> both = to.node(segments).outputs;
  const auto logarithm = int64_t{node.op == "LogSoftmax" ? 1 : 0};
  const NodeId made =
      to.add_node(node.name, "SegmentSoftmax", {{"axis", axis}, {"logarithm", logarithm}},
                  {inputs[0], both[0], both[1]});
  return to.node(made).outputs;
}

DividedPieces divide_softmax(const Node& node, const std::vector<int64_t>& boundaries,
                             const Layout& division, int64_t /*largest*/) {
  return {{node.name + ".segments",
           by_segments(division, static_cast<size_t>(axis_of(node)), boundaries)},
          {node.name, division}};
}

RewriteRow softmax_row(std::string_view name, std::string_view help, std::string_view op) {
  RewriteRow row;
  row.name = name;
  row.help = help;
  row.op = op;
  row.divides = [](const ops::IterationAxis& axis) { return !axis.undivided.empty(); };
  row.numbers = boundaries_along_axis;
  row.replace = replace_softmax;
  row.divide = divide_softmax;
  row.exchanged = 2;
  row.takes = [](const Node& node) {
    return !node.attributes.contains(ops::kChannelsLastAttribute);
  };
  return row;
}

}  // namespace

RewriteRow split_softmax() {
  return softmax_row("split-softmax",
                     "softmax divided along its axis: maximum and log-sum-exp by segments",
                     "Softmax");
}

RewriteRow split_log_softmax() {
  return softmax_row("split-log-softmax",
                     "logarithm of softmax divided along its axis: as split-softmax", "LogSoftmax");
}

}  // namespace kerf::partitioner
