// Batch normalisation of a divided batch, or of divided positions:
//
//   X --ChannelSum--> totals [2, C]                     partial sums over the shares
//   X, totals --CenteredSquareSum--> squares [C]        likewise: the second round is centred
//   totals, squares, states --ChannelStatistics--> mean, variance
//   X, scale, B, mean, variance --BatchNormalization, training_mode 0--> Y
//
// Every part computes the statistics of its channels from everybody's sums, in one order, so that
// all of them have the same bits and nothing more travels; the states follow on each.
#include <algorithm>

#include "ops/image_format.h"
#include "partitioner/rewrite.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::Layout;

constexpr size_t kChannels = 1;  // among the iteration axes

std::vector<int64_t> no_numbers(const Node& /*node*/, const Layout& /*division*/,
                                int64_t /*largest*/) {
  return {};
}

ops::Attributes only(const ops::Attributes& all, const std::vector<std::string>& names) {
  ops::Attributes some;
  for (const std::string& name : names)
    if (const auto found = all.find(name); found != all.end()) some.insert(*found);
  return some;
}

std::vector<ValueId> replace_norm(const Node& node, const std::vector<ValueId>& inputs,
                                  const std::vector<int64_t>& numbers, Model& to) {
  if (!numbers.empty()) throw Error(ErrorCode::kUsage, "its rewrite has no numbers");
  const auto first_output = [&](NodeId id) { return to.node(id).outputs[0]; };
  const ops::Attributes format = only(node.attributes, {ops::kChannelsLastAttribute});
  const ValueId totals =
      first_output(to.add_node(node.name + ".sums", "ChannelSum", format, {inputs[0]}));
  const ValueId squares = first_output(
      to.add_node(node.name + ".squares", "CenteredSquareSum", format, {inputs[0], totals}));
  const NodeId statistics =
      to.add_node(node.name + ".statistics", "ChannelStatistics",
                  only(node.attributes, {"momentum"}), {totals, squares, inputs[3], inputs[4]}, 2);
  const std::vector<ValueId> found = to.node(statistics).outputs;
  const NodeId normal = to.add_node(node.name, "BatchNormalization",
                                    only(node.attributes, {"epsilon", ops::kChannelsLastAttribute}),
                                    {inputs[0], inputs[1], inputs[2], found[0], found[1]});
  return {first_output(normal), found[0], found[1]};
}

// Each part those of the channels that it normalises.
Layout statistics_of(const Layout& division, const ops::Shape& channels) {
  Layout statistics;
  std::vector<int> parts;
  for (const ops::Share& share : division.shares) {
    statistics.shares.push_back({share.part, Box{{share.box.axes[kChannels]}}});
    parts.push_back(share.part);
  }
  return ops::check_layout(statistics, channels).empty() ? statistics
                                                         : Layout::replicated(parts, 1);
}

DividedPieces divide_norm(const Node& node, const std::vector<int64_t>& /*numbers*/,
                          const Layout& division, int64_t /*largest*/) {
  const ops::Shape channels{node.bound->space().axes[kChannels].extent};
  return {{node.name + ".sums", division},
          {node.name + ".squares", division},
          {node.name + ".statistics", statistics_of(division, channels)},
          {node.name, division}};
}

}  // namespace

RewriteRow sync_batch_norm() {
  return {"sync-batch-norm",
          "batch normalisation divided by samples or positions: two rounds of sums, the second "
          "centred",
          "BatchNormalization",
          [](const ops::IterationAxis& axis) {
            return axis.kind == ops::AxisKind::kSample || axis.kind == ops::AxisKind::kSpace;
          },
          true,
          no_numbers,
          replace_norm,
          divide_norm};
}

}  // namespace kerf::partitioner
