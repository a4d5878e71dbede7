#include "ops/image_format.h"

#include "runtime/error.h"

namespace kerf::ops {
namespace {

constexpr int kImageRank = 4;

}  // namespace

ImageFormat image_format(const Attributes& attributes) {
  const int64_t value = attribute_int(attributes, kChannelsLastAttribute, 0);
  if (value != 0 && value != 1)
    throw Error(ErrorCode::kUsage,
                format("attribute '{}' is 0 or 1, not {}", kChannelsLastAttribute, value));
  return value == 1 ? ImageFormat::kChannelsLast : ImageFormat::kChannelsFirst;
}

ImageFormat image_format(const NodeFacts& facts) {
  const ImageFormat images = image_format(facts.attributes);
  const Shape& shape = facts.inputs[0].spec.shape;
  if (images == ImageFormat::kChannelsLast && shape.rank() != kImageRank)
    throw Error(ErrorCode::kUsage, format("attribute '{}' is of images with {} axes, not of {}: "
                                          "leave it out",
                                          kChannelsLastAttribute, kImageRank, to_string(shape)));
  return images;
}

int stored_axis(ImageFormat format, int axis, int rank) {
  if (format == ImageFormat::kChannelsFirst || axis < 1) return axis;
  return axis == 1 ? rank - 1 : axis - 1;
}

std::vector<int> stored_order(ImageFormat format, int rank) {
  std::vector<int> order(static_cast<size_t>(rank));
  for (int axis = 0; axis < rank; ++axis)
    order[static_cast<size_t>(stored_axis(format, axis, rank))] = axis;
  return order;
}

Shape stored_shape(ImageFormat format, const Shape& onnx) {
  Shape stored = onnx;
  for (int axis = 0; axis < onnx.rank(); ++axis)
    stored[stored_axis(format, axis, onnx.rank())] = onnx[axis];
  return stored;
}

Shape onnx_shape(ImageFormat format, const Shape& stored) {
  Shape onnx = stored;
  for (int axis = 0; axis < stored.rank(); ++axis)
    onnx[axis] = stored[stored_axis(format, axis, stored.rank())];
  return onnx;
}

OperandMap stored_axes(ImageFormat format, const OperandMap& onnx) {
  OperandMap stored = onnx;
  const auto rank = static_cast<int>(onnx.axes.size());
  for (int axis = 0; axis < rank; ++axis)
    stored.axes[static_cast<size_t>(stored_axis(format, axis, rank))] =
        onnx.axes[static_cast<size_t>(axis)];
  return stored;
}

std::vector<IterationAxis> axes_of_image(ImageFormat format, const Shape& stored) {
  const std::vector<IterationAxis> onnx = axes_of_tensor(onnx_shape(format, stored));
  std::vector<IterationAxis> axes;
  for (const int axis : stored_order(format, stored.rank()))
    axes.push_back(onnx[static_cast<size_t>(axis)]);
  return axes;
}

FormalAttribute format_attribute() { return {kChannelsLastAttribute}; }

std::optional<ChannelsLast> image_channels_last(const NodeFacts& facts) {
  if (facts.inputs[0].spec.shape.rank() != kImageRank) return std::nullopt;
  ChannelsLast node{facts.attributes, {0}};
  node.attributes[kChannelsLastAttribute] = int64_t{1};
  return node;
}

std::optional<ChannelsLast> images_along_axis_channels_last(const NodeFacts& facts,
                                                            int64_t default_axis) {
  std::optional<ChannelsLast> node = image_channels_last(facts);
  if (!node) return node;
  int64_t axis = attribute_int(facts.attributes, "axis", default_axis);
  if (axis < 0) axis += kImageRank;
  node->attributes["axis"] =
      int64_t{stored_axis(ImageFormat::kChannelsLast, static_cast<int>(axis), kImageRank)};
  for (int i = 1; i < static_cast<int>(facts.inputs.size()); ++i) node->images.push_back(i);
  return node;
}

}  // namespace kerf::ops
