#include "ops/broadcast.h"

#include <algorithm>

namespace kerf::ops {
namespace {

constexpr int kImageAxes = 4;
constexpr int kChannels = 1;

// Has samples or comes from what has: laid out as images are.
bool is_image(const Operand& operand) {
  return operand.spec.shape.rank() == kImageAxes && !is_kept(operand.role);
}

// At most the channels are more than one.
bool has_channels_alone(const Shape& shape) {
  if (shape.rank() > kImageAxes) return false;
  const int shift = kImageAxes - shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (axis + shift != kChannels && shape[axis] != 1) return false;
  return true;
}

// [C, 1, 1] as [1, C, 1, 1].
Shape with_every_axis(const Shape& shape) {
  std::vector<int64_t> extents(static_cast<size_t>(kImageAxes - shape.rank()), 1);
  extents.insert(extents.end(), shape.begin(), shape.end());
  return Shape(extents);
}

}  // namespace

Shape broadcast_shape(std::string_view op, const std::vector<Shape>& shapes) {
  int rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.rank());
  std::vector<int64_t> extents(static_cast<size_t>(rank), 1);
  bool fits = true;
  for (const Shape& shape : shapes)
    for (int axis = 0; axis < shape.rank(); ++axis) {
      int64_t& extent = extents[static_cast<size_t>(axis + rank - shape.rank())];
      if (shape[axis] == 1 || shape[axis] == extent) continue;
      fits = fits && extent == 1;
      extent = shape[axis];
    }
  if (fits && std::count_if(extents.begin(), extents.end(), [](int64_t e) { return e < 0; }) < 2)
    return Shape(extents);
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) texts.push_back(to_string(shape));
  throw Error(ErrorCode::kUsage,
              format("{} cannot repeat {} to one shape: from the last axis backwards, extents must "
                     "be equal or 1, and one axis may count samples",
                     op, fmt::join(texts, " and ")));
}

Repeated::Repeated(std::string_view op, const NodeFacts& facts)
    : format_(image_format(facts.attributes)) {
  std::vector<Shape> aligned_shapes;
  for (const Operand& operand : facts.inputs) {
    shapes_.push_back(operand.spec.shape);
    present_.push_back(operand.present);
    turned_.push_back(format_ == ImageFormat::kChannelsLast && !is_image(operand));
    if (!operand.present) continue;
    if (turned_.back() && !has_channels_alone(operand.spec.shape))
      throw Error(ErrorCode::kUsage,
                  format("{} with channels last cannot repeat {} over images: it may have an "
                         "extent of their channels only",
                         op, to_string(operand.spec.shape)));
    aligned_shapes.push_back(aligned(static_cast<int>(shapes_.size()) - 1, operand.spec.shape));
  }
  output_ = broadcast_shape(op, aligned_shapes);
}

Shape Repeated::aligned(int input, const Shape& local) const {
  return turned(input) ? stored_shape(format_, with_every_axis(local)) : local;
}

IterationSpace Repeated::space() const {
  IterationSpace space{axes_of_image(format_, output_), {}, {same_axes(output_.rank())}};
  for (int input = 0; input < static_cast<int>(shapes_.size()); ++input) {
    const Shape& shape = shapes_[static_cast<size_t>(input)];
    if (!present_[static_cast<size_t>(input)]) {
      space.inputs.emplace_back();
      continue;
    }
    if (!turned(input)) {
      space.inputs.push_back(broadcast_axes(shape, output_));
      continue;
    }
    const OperandMap stored = broadcast_axes(aligned(input, shape), output_);
    OperandMap onnx;
    for (int axis = kImageAxes - shape.rank(); axis < kImageAxes; ++axis)
      onnx.axes.push_back(stored.axes[static_cast<size_t>(stored_axis(format_, axis, kImageAxes))]);
    space.inputs.push_back(std::move(onnx));
  }
  return space;
}

std::optional<ChannelsLast> repeated_channels_last(const NodeFacts& facts) {
  ChannelsLast node{facts.attributes, {}};
  node.attributes[kChannelsLastAttribute] = int64_t{1};
  for (size_t i = 0; i < facts.inputs.size(); ++i) {
    const Operand& operand = facts.inputs[i];
    if (!operand.present) continue;
    if (is_image(operand))
      node.images.push_back(static_cast<int>(i));
    else if (!has_channels_alone(operand.spec.shape))
      return std::nullopt;
  }
  if (node.images.empty()) return std::nullopt;
  return node;
}

}  // namespace kerf::ops
