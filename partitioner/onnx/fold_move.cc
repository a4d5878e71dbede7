#include <algorithm>
#include <numeric>

#include "partitioner/onnx/fold.h"
#include "runtime/error.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;
using Folded = std::optional<std::vector<Integers>>;
using Ints = std::vector<int64_t>;

[[noreturn]] void no_such(const std::string& why) { throw Error(ErrorCode::kUsage, why); }

int64_t product(const Ints& shape, size_t from, size_t to) {
  return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(from),
                         shape.begin() + static_cast<ptrdiff_t>(to), int64_t{1},
                         std::multiplies<>());
}

// Of indices along one axis.
Integers taken(const Integers& from, size_t axis, const Ints& indices) {
  const int64_t outer = product(from.shape, 0, axis);
  const int64_t inner = product(from.shape, axis + 1, from.shape.size());
  Integers result{from.dtype, from.shape, {}};
  result.shape[axis] = static_cast<int64_t>(indices.size());
  if (elements_in(result.shape) > static_cast<int64_t>(kMostIntegers))
    no_such("a computed shape is too large");
  for (int64_t o = 0; o < outer; ++o)
    for (const int64_t index : indices)
      for (int64_t i = 0; i < inner; ++i)
        result.elements.push_back(
            from.elements[static_cast<size_t>((o * from.shape[axis] + index) * inner + i)]);
  return result;
}

Folded fold_gather(const GraphNode& node, const FoldInputs& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const auto wanted = fixed_elements(*inputs[1]);
  if (!wanted) return std::nullopt;
  const Integers& data = *inputs[0];
  const size_t axis = axis_of(ops::attribute_int(node.attributes, "axis", 0), data.shape.size());
  Ints indices;
  for (const int64_t index : *wanted) {
    const int64_t extent = data.shape[axis];
    if (index < -extent || index >= extent)
      no_such(format("there is no index {} among {}", index, extent));
    indices.push_back(index < 0 ? index + extent : index);
  }
  Integers result = taken(data, axis, indices);
  const auto at = static_cast<ptrdiff_t>(axis);
  result.shape.erase(result.shape.begin() + at);
  result.shape.insert(result.shape.begin() + at, inputs[1]->shape.begin(), inputs[1]->shape.end());
  return {{std::move(result)}};
}

Ints sliced_indices(int64_t extent, int64_t start, int64_t end, int64_t step) {
  if (step == 0) no_such("a slice in steps of 0");
  const int64_t last = step > 0 ? extent : extent - 1;
  const auto clamped = [&](int64_t at) {
    const int64_t from_begin = at < 0 ? at + extent : at;
    return std::clamp<int64_t>(from_begin, step > 0 ? 0 : -1, last);
  };
  Ints indices;
  const int64_t stop = clamped(end);
  for (int64_t at = clamped(start); step > 0 ? at < stop : at > stop;) {
    indices.push_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return indices;
}

Folded fold_slice(const GraphNode& node, const FoldInputs& inputs) {
  const auto starts = ints_of(node, inputs, "starts", 1);
  const auto ends = ints_of(node, inputs, "ends", 2);
  auto axes = ints_of(node, inputs, "axes", 3);
  const auto steps = ints_of(node, inputs, "steps", 4);
  if (!starts || !ends || !axes || !steps) return std::nullopt;
  if (axes->empty())
    for (size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<int64_t>(i));
  if (starts->size() != ends->size() || starts->size() != axes->size() ||
      (!steps->empty() && steps->size() != starts->size()))
    no_such("its starts, ends, axes and steps differ in number");
  Integers result = *inputs[0];
  for (size_t i = 0; i < starts->size(); ++i) {
    const size_t axis = axis_of((*axes)[i], result.shape.size());
    result = taken(result, axis,
                   sliced_indices(result.shape[axis], (*starts)[i], (*ends)[i],
                                  steps->empty() ? 1 : (*steps)[i]));
  }
  return {{std::move(result)}};
}

Folded fold_concat(const GraphNode& node, const FoldInputs& inputs) {
  const Integers& first = *inputs[0];
  const size_t axis = axis_of(ops::attribute_int(node.attributes, "axis", 1), first.shape.size());
  Integers result{first.dtype, first.shape, {}};
  result.shape[axis] = 0;
  for (const Integers* each : inputs) {
    if (each == nullptr) return std::nullopt;
    Ints others = each->shape;
    if (others.size() == first.shape.size()) others[axis] = first.shape[axis];
    if (others != first.shape) no_such("its inputs have shapes that do not fit each other");
    result.shape[axis] += each->shape[axis];
  }
  if (elements_in(result.shape) > static_cast<int64_t>(kMostIntegers))
    no_such("a computed shape is too large");
  const int64_t outer = product(first.shape, 0, axis);
  for (int64_t o = 0; o < outer; ++o)
    for (const Integers* each : inputs) {
      const int64_t run = product(each->shape, axis, each->shape.size());
      result.elements.insert(result.elements.end(), each->elements.begin() + o * run,
                             each->elements.begin() + (o + 1) * run);
    }
  return {{std::move(result)}};
}

Folded reshaped(const Integers& from, Ints shape) {
  Integers result = from;
  result.shape = std::move(shape);
  if (elements_in(result.shape) != static_cast<int64_t>(result.elements.size()))
    no_such(format("{} elements do not have the shape [{}]", result.elements.size(),
                   fmt::join(result.shape, ", ")));
  return {{std::move(result)}};
}

Folded fold_reshape(const GraphNode& node, const FoldInputs& inputs) {
  const auto wanted = ints_of(node, inputs, "shape", 1);
  if (!wanted) return std::nullopt;
  const bool zeros = ops::attribute_int(node.attributes, "allowzero", 0) != 0;
  return reshaped(*inputs[0], with_extents(inputs[0]->shape, *wanted, zeros));
}

Folded fold_squeeze(const GraphNode& node, const FoldInputs& inputs) {
  const auto axes = ints_of(node, inputs, "axes", 1);
  if (!axes) return std::nullopt;
  return reshaped(*inputs[0], squeezed(inputs[0]->shape, *axes));
}

Folded fold_unsqueeze(const GraphNode& node, const FoldInputs& inputs) {
  const auto axes = ints_of(node, inputs, "axes", 1);
  if (!axes) return std::nullopt;
  return reshaped(*inputs[0], unsqueezed(inputs[0]->shape, *axes));
}

Folded fold_expand(const GraphNode& node, const FoldInputs& inputs) {
  const auto wanted = ints_of(node, inputs, "shape", 1);
  if (!wanted) return std::nullopt;
  Integers result = *inputs[0];
  while (result.shape.size() < wanted->size()) result.shape.insert(result.shape.begin(), 1);
  for (size_t i = 0; i < wanted->size(); ++i) {
    const size_t axis = result.shape.size() - 1 - i;
    const int64_t extent = (*wanted)[wanted->size() - 1 - i];
    if (result.shape[axis] == extent || extent == 1) continue;
    if (result.shape[axis] != 1 || extent < 0 || extent > static_cast<int64_t>(kMostIntegers))
      no_such(format("an axis of {} is not expanded to {}", result.shape[axis], extent));
    result = taken(result, axis, Ints(static_cast<size_t>(extent), 0));
  }
  return {{std::move(result)}};
}

Folded fold_split(const GraphNode& node, const FoldInputs& inputs) {
  auto sizes = ints_of(node, inputs, "split", 1);
  if (!sizes) return std::nullopt;
  const Integers& from = *inputs[0];
  const size_t axis = axis_of(ops::attribute_int(node.attributes, "axis", 0), from.shape.size());
  const auto count = static_cast<int64_t>(node.outputs.size());
  if (sizes->empty()) {
    const int64_t each = (from.shape[axis] + count - 1) / count;
    for (int64_t left = from.shape[axis]; static_cast<int64_t>(sizes->size()) < count; left -= each)
      sizes->push_back(std::clamp<int64_t>(left, 0, each));
  }
  const auto none = [&](int64_t size) { return size < 0 || size > from.shape[axis]; };
  if (static_cast<int64_t>(sizes->size()) < count ||
      std::any_of(sizes->begin(), sizes->end(), none) ||
      std::accumulate(sizes->begin(), sizes->end(), int64_t{0}) != from.shape[axis])
    no_such("its parts are not the whole");
  std::vector<Integers> parts;
  int64_t begin = 0;
  for (const int64_t size : *sizes) {
    Ints indices(static_cast<size_t>(size));
    std::iota(indices.begin(), indices.end(), begin);
    parts.push_back(taken(from, axis, indices));
    begin += size;
  }
  return parts;
}

Folded fold_cast(const GraphNode& node, const Integers& from, int64_t to) {
  static const std::vector<std::pair<int64_t, DType>> kTypes{
      {2, DType::kUint8}, {3, DType::kInt8},  {4, DType::kUint16}, {5, DType::kInt16},
      {6, DType::kInt32}, {7, DType::kInt64}, {9, DType::kBool},   {12, DType::kUint32}};
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const auto& each) { return each.first == to; });
  if (type == kTypes.end() || node.op != "Cast") return std::nullopt;
  Integers result = from;
  result.dtype = type->second;
  const auto of_batch = [](const Affine& each) { return !each.is_fixed(); };
  if (result.dtype == DType::kBool &&
      std::any_of(result.elements.begin(), result.elements.end(), of_batch))
    return std::nullopt;
  return {{std::move(result)}};
}

}  // namespace

std::optional<Ints> ints_of(const GraphNode& node, const FoldInputs& inputs, const char* name,
                            size_t input) {
  if (node.attributes.contains(name) || input >= inputs.size() || inputs[input] == nullptr)
    return ops::attribute_ints(node.attributes, name, {});
  return fixed_elements(*inputs[input]);
}

size_t axis_of(int64_t axis, size_t rank) {
  const int64_t resolved = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (resolved < 0 || resolved >= static_cast<int64_t>(rank))
    no_such(format("there is no axis {} among {}", axis, rank));
  return static_cast<size_t>(resolved);
}

Ints squeezed(const Ints& shape, const Ints& axes) {
  std::vector<bool> drop(shape.size(), false);
  for (size_t i = 0; i < shape.size(); ++i) drop[i] = axes.empty() && shape[i] == 1;
  for (const int64_t axis : axes) drop[axis_of(axis, shape.size())] = true;
  Ints kept;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!drop[i]) kept.push_back(shape[i]);
  return kept;
}

Ints unsqueezed(const Ints& shape, const Ints& axes) {
  std::vector<bool> added(shape.size() + axes.size(), false);
  for (const int64_t axis : axes) added[axis_of(axis, added.size())] = true;
  Ints result;
  size_t next = 0;
  for (const bool one : added) {
    if (!one && next == shape.size()) no_such("an axis is named twice");
    result.push_back(one ? 1 : shape[next++]);
  }
  return result;
}

Ints with_extents(const Ints& shape, Ints wanted, bool zeros) {
  int64_t known = 1;
  int64_t* inferred = nullptr;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0 && i < shape.size() && !zeros) wanted[i] = shape[i];
    if (wanted[i] == -1 && inferred == nullptr)
      inferred = &wanted[i];
    else if (wanted[i] < 0 || __builtin_mul_overflow(known, wanted[i], &known))
      no_such(format("its shape has an extent of {}", wanted[i]));
  }
  if (inferred != nullptr) *inferred = known == 0 ? 0 : elements_in(shape) / known;
  return wanted;
}

Folded fold_move(const GraphNode& node, const FoldInputs& inputs) {
  if (node.op == "Identity") return {{*inputs[0]}};
  if (node.op == "Cast")
    return fold_cast(node, *inputs[0], ops::attribute_int(node.attributes, "to", 0));
  if (node.op == "Gather") return fold_gather(node, inputs);
  if (node.op == "Slice") return fold_slice(node, inputs);
  if (node.op == "Concat") return fold_concat(node, inputs);
  if (node.op == "Reshape") return fold_reshape(node, inputs);
  if (node.op == "Squeeze") return fold_squeeze(node, inputs);
  if (node.op == "Unsqueeze") return fold_unsqueeze(node, inputs);
  if (node.op == "Expand") return fold_expand(node, inputs);
  if (node.op == "Split") return fold_split(node, inputs);
  return std::nullopt;
}

}  // namespace kerf::partitioner::onnx
