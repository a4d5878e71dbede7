// DepthToSpace and SpaceToDepth (ONNX, opset 28): blocks of b by b pixels for channels, and back.
//
//   [N, C * b * b, H, W]  <->  [N, C, H * b, W * b]
//
// Attributes blocksize, and mode: DCR, the default, has the block's place as the slower part of the
// channels, CRD as the faster. Iterations: samples, the channels of the larger image, the block's
// rows and columns, height and width of the smaller image: all of them divide.
#include "ops/operators/rearranged.h"
#include "ops/samples_axis.h"

namespace kerf::ops {
namespace {

enum : int { kSamples, kBlockRow, kBlockColumn, kChannel, kRow, kColumn };

struct BlockShapes {
  Shape deep;  // the image of more channels
  Shape wide;
};

BlockShapes block_shapes(std::string_view op, const Shape& x, int64_t block, bool to_space) {
  const int64_t area = block * block;
  const bool fits = x.rank() == 4 && x.batch_axis() <= 0 &&
                    (to_space ? x[1] % area == 0 : x[2] % block == 0 && x[3] % block == 0);
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("{} of {} by blocks of {}: it wants [N, C, H, W], with {}", op, to_string(x),
                       block, to_space ? "blocks of channels" : "whole blocks of pixels"));
  if (to_space) return {x, {x[0], x[1] / area, x[2] * block, x[3] * block}};
  const int64_t channels = Shape{x[1], area}.elements();
  return {{x[0], channels, x[2] / block, x[3] / block}, x};
}

std::unique_ptr<const BoundOperator> bind_blocks(std::string_view op, const NodeFacts& facts,
                                                 bool to_space) {
  constexpr int64_t kMost = 1 << 15;
  const int64_t block = attribute_int(facts.attributes, "blocksize", 0);
  const std::string mode = attribute_string(facts.attributes, "mode", "DCR");
  if (block < 1 || block > kMost)
    throw Error(ErrorCode::kUsage, format("{} cannot have the blocksize {}", op, block));
  if (mode != "DCR" && mode != "CRD")
    throw Error(ErrorCode::kUsage, format("{}: mode is 'DCR' or 'CRD', not '{}'", op, mode));
  const auto [deep, wide] = block_shapes(op, facts.inputs[0].spec.shape, block, to_space);
  IterationSpace space;
  space.axes = {samples_axis(deep[0]),
                {AxisKind::kSpace, "block rows", block},
                {AxisKind::kSpace, "block columns", block},
                {AxisKind::kFeature, "features", wide[1]},
                {AxisKind::kSpace, "rows", deep[2]},
                {AxisKind::kSpace, "columns", deep[3]}};
  const std::vector<int> channels = mode == "DCR"
                                        ? std::vector<int>{kBlockRow, kBlockColumn, kChannel}
                                        : std::vector<int>{kChannel, kBlockRow, kBlockColumn};
  const OperandMap of_deep = operand_axes({{kSamples}, channels, {kRow}, {kColumn}});
  const OperandMap of_wide =
      operand_axes({{kSamples}, {kChannel}, {kRow, kBlockRow}, {kColumn, kBlockColumn}});
  space.inputs = {to_space ? of_deep : of_wide};
  space.outputs = {to_space ? of_wide : of_deep};
  return std::make_unique<Rearranged>(op, facts, to_space ? wide : deep, std::move(space));
}

}  // namespace

OperatorDefinitions define_depth_to_space() {
  OperatorDefinitions both;
  for (const bool to_space : {true, false})
    both.push_back({.name = to_space ? "DepthToSpace" : "SpaceToDepth",
                    .inputs = {{"input"}},
                    .outputs = {{"output"}},
                    .attributes = {{"blocksize"}, {"mode", AttributeType::kString}},
                    .bind = [to_space](const NodeFacts& facts) {
                      return bind_blocks(to_space ? "DepthToSpace" : "SpaceToDepth", facts,
                                         to_space);
                    }});
  return both;
}

}  // namespace kerf::ops
