// Cross-entropy over a divided vocabulary (as in Megatron-LM: Shoeybi et al. 2019):
//
//   scores --SegmentLogSumExp--> maximum, log_sum [N, S, ...]  per segment of the classes
//   scores, labels --PickLabel--> picked [N, ...]              a partial sum over the classes
//   maximum, log_sum, picked --LogLoss--> loss
//
// The numbers are the segments' boundaries: wherever a share of the classes begins or ends. Scores
// stay where they were made; per row two floats a segment travel, and one.
#include <algorithm>

#include "partitioner/rewrite.h"
#include "partitioner/rewrites/segments.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;

constexpr size_t kClasses = 1;  // among the iteration axes

std::vector<int64_t> boundaries_of_classes(const Node& node, const Layout& division,
                                           int64_t /*largest*/) {
  return segment_boundaries(division, kClasses, node.bound->space().axes[kClasses].extent);
}

std::vector<ValueId> replace_loss(const Node& node, const std::vector<ValueId>& inputs,
                                  const std::vector<int64_t>& boundaries, Model& to) {
  const NodeId segments = to.add_node(node.name + ".segments", "SegmentLogSumExp",
                                      {{"boundaries", boundaries}}, {inputs[0]}, 2);
  const NodeId picked = to.add_node(node.name + ".picked", "PickLabel", {}, inputs);
  const std::vector<ValueId>& both = to.node(segments).outputs;
  const NodeId loss =
      to.add_node(node.name, "LogLoss", {}, {both[0], both[1], to.node(picked).outputs[0]});
  return to.node(loss).outputs;
}

// Who puts rows together: the first of those that have segments of them. Where shares of rows
// overlap without being the same, one part puts all together.
Layout put_together(const Layout& division) {
  Layout rows;
  for (const ops::Share& share : division.shares) {
    Box box = share.box;
    box.axes[kClasses] = IndexSet::all();
    const auto meets = [&](const ops::Share& other) {
      return !ops::intersect(other.box, box).empty();
    };
    const auto other = std::find_if(rows.shares.begin(), rows.shares.end(), meets);
    if (other == rows.shares.end())
      rows.shares.push_back({share.part, box});
    else if (other->box != box)
      return Layout::whole(division.shares[0].part, static_cast<int>(box.axes.size()));
  }
  return rows;
}

DividedPieces divide_loss(const Node& node, const std::vector<int64_t>& boundaries,
                          const Layout& division, int64_t /*largest*/) {
  return {{node.name + ".segments", by_segments(division, kClasses, boundaries)},
          {node.name + ".picked", division},
          {node.name, put_together(division)}};
}

}  // namespace

RewriteRow split_cross_entropy() {
  return {"split-cross-entropy",
          "cross-entropy divided by classes: log-sum-exp by segments, scores stay where they are",
          "SoftmaxCrossEntropyLoss",
          [](const ops::IterationAxis& axis) { return axis.kind == ops::AxisKind::kSummed; },
          false,
          boundaries_of_classes,
          replace_loss,
          divide_loss,
          3};
}

}  // namespace kerf::partitioner
