// The order in which an image's axes lie: ONNX's [N, C, H, W], or channels last, [N, H, W, C].
//
// A node whose attribute `channels_last` (Kerf's own) is 1 has its images so; its parameters and
// all else stay as ONNX has them. partitioner/channels_last.h says which nodes have it. Iterations
// keep their order and names in both. Plain values and pure functions.
#pragma once

#include <optional>
#include <vector>

#include "ops/operator.h"

namespace kerf::ops {

enum class ImageFormat : uint8_t { kChannelsFirst, kChannelsLast };

inline constexpr const char* kChannelsLastAttribute = "channels_last";
// Throws Error{kUsage} where the attribute is neither 0 nor 1.
ImageFormat image_format(const Attributes& attributes);
// The same of a node whose input 0 is an image; also throws where that has not four axes, which
// the attribute is of.
ImageFormat image_format(const NodeFacts& facts);

// Where ONNX's axis `axis` of a tensor of `rank` axes lies; rank 2 has one order only.
int stored_axis(ImageFormat format, int axis, int rank);
// Axis j of the stored tensor is axis order[j] of ONNX's.
std::vector<int> stored_order(ImageFormat format, int rank);
// Both ways between the shape as ONNX has it and the one that the tensor has.
Shape stored_shape(ImageFormat format, const Shape& onnx);
Shape onnx_shape(ImageFormat format, const Shape& stored);
// An operand's axes as ONNX has them, in the order in which they are stored.
OperandMap stored_axes(ImageFormat format, const OperandMap& onnx);
// axes_of_tensor() of a tensor in this order.
std::vector<IterationAxis> axes_of_image(ImageFormat format, const Shape& stored);

// ---- what definitions say of their nodes (OperatorDefinition::channels_last)

// A node as it is with its images' channels last.
struct ChannelsLast {
  Attributes attributes;
  std::vector<int> images;  // which of its inputs are; its outputs are if they have four axes
};
FormalAttribute format_attribute();
// Input 0 is the image; nothing unless it has four axes.
std::optional<ChannelsLast> image_channels_last(const NodeFacts& facts);
// All inputs are, of one shape but along their attribute `axis`, which follows.
std::optional<ChannelsLast> images_along_axis_channels_last(const NodeFacts& facts,
                                                            int64_t default_axis);

}  // namespace kerf::ops
