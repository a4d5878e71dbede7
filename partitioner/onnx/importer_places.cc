// Where the numbers of each sample are among those of all, as an exporter computes it to view a
// tensor by its strides.
#include <algorithm>
#include <utility>

#include "partitioner/onnx/fold.h"
#include "partitioner/onnx/free_batch.h"
#include "partitioner/onnx/importer.h"

namespace kerf::partitioner::onnx {
namespace {

using Ints = std::vector<int64_t>;

// 0, 1, 2 and so on to the batch.
bool counts_samples(const std::vector<std::optional<Integers>>& inputs) {
  const auto is = [&](size_t input, const Affine& number) {
    return inputs[input] && inputs[input]->elements.size() == 1 &&
           inputs[input]->elements[0] == number;
  };
  return inputs.size() == 3 && is(0, {0, 0}) && is(1, {1, 0}) && is(2, {0, 1});
}

std::optional<Places> scaled_places(const Places& places, const Integers& factor) {
  if (factor.elements.size() != 1 || !factor.elements[0].is_fixed() ||
      factor.shape.size() > places.first.shape.size() + 1)
    return std::nullopt;
  auto first = fold({"it", "Mul", {}, {}, {}}, {&places.first, &factor});
  Places product{places.first, 0};
  if (!first || (*first)[0].elements.size() != places.first.elements.size() ||
      __builtin_mul_overflow(places.stride, factor.elements[0].fixed, &product.stride))
    return std::nullopt;
  product.first.elements = std::move((*first)[0].elements);
  return product;
}

// What is added is the same for all samples.
std::optional<Places> shifted_places(const Places& places, Integers other) {
  const size_t rank = places.first.shape.size() + 1;
  if (other.shape.size() > rank || !fixed_elements(other)) return std::nullopt;
  if (other.shape.size() == rank && other.shape[0] != 1) return std::nullopt;
  if (other.shape.size() == rank) other.shape.erase(other.shape.begin());
  auto first = fold({"it", "Add", {}, {}, {}}, {&places.first, &other});
  return first ? std::optional(Places{std::move((*first)[0]), places.stride}) : std::nullopt;
}

std::optional<Places> spread_places(const Places& places, const Ints& axes) {
  const size_t rank = places.first.shape.size() + 1 + axes.size();
  std::vector<bool> added(rank);
  for (const int64_t axis : axes) added[axis_of(axis, rank)] = true;
  if (added[0] || std::count(added.begin(), added.end(), true) != std::ssize(axes))
    return std::nullopt;
  Places result{{places.first.dtype, {}, places.first.elements}, places.stride};
  auto next = places.first.shape.begin();
  for (size_t axis = 1; axis < rank; ++axis)
    result.first.shape.push_back(added[axis] ? 1 : *next++);
  return result;
}

}  // namespace

bool Importer::fold_places(const GraphNode& node) {
  if (node.outputs.empty() || !is_small(node)) return false;
  std::vector<std::optional<Integers>> others;
  const Places* places = nullptr;
  for (const std::string& input : node.inputs) {
    if (input.empty()) return false;
    others.push_back(integers(input));
    if (const auto* found = std::get_if<Places>(&known(input))) places = found;
  }
  std::optional<Places> made;
  if (node.op == "Range" && counts_samples(others))
    made = Places{{others[0]->dtype, {}, {{0, 0}}}, 1};
  else if (places == nullptr)
    return false;
  const auto other =
      std::find_if(others.begin(), others.end(), [](const auto& each) { return each.has_value(); });
  if (places != nullptr && node.op == "Unsqueeze" && others.size() <= 2) {
    const auto axes = other == others.end() ? ops::attribute_ints(node.attributes, "axes", {})
                                            : fixed_elements(**other).value_or(Ints{});
    made = spread_places(*places, axes);
  } else if (places != nullptr && others.size() == 2 && other != others.end()) {
    if (node.op == "Mul") made = scaled_places(*places, **other);
    if (node.op == "Add") made = shifted_places(*places, **other);
  }
  if (!made) return false;
  budget_.take(made->first.elements.size() * sizeof(Affine), 0);
  set(node.outputs[0], std::move(*made));
  return true;
}

// Of a Gather of all numbers of all samples in their order; nothing of others.
std::optional<GraphNode> Importer::as_reshape(const GraphNode& gather) const {
  if (gather.op != "Gather" || gather.inputs.size() != 2 || !is_computed(gather, 0) ||
      gather.inputs[1].empty())
    return std::nullopt;
  const ops::Shape from = shape_of(gather.inputs[0]);
  if (!from.batched() || from.rank() != 1) return std::nullopt;
  const auto* places = std::get_if<Places>(&known(gather.inputs[1]));
  const auto wanted = places != nullptr ? places->first : integers(gather.inputs[1]);
  const auto all = places != nullptr ? std::optional(places->stride)
                   : fixed_batch_    ? of_samples(-from[0], *fixed_batch_)
                                     : std::nullopt;
  if (!wanted || std::ssize(wanted->elements) != all || (places != nullptr && *all != -from[0]))
    return std::nullopt;
  for (size_t i = 0; i < wanted->elements.size(); ++i)
    if (!(wanted->elements[i] == Affine{0, static_cast<int64_t>(i)})) return std::nullopt;
  Ints shape = wanted->shape;
  if (places != nullptr) shape.insert(shape.begin(), -1);
  return GraphNode{gather.name, "Reshape", {{"shape", shape}}, {gather.inputs[0]}, gather.outputs};
}

}  // namespace kerf::partitioner::onnx
