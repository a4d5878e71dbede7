// Inputs of ONNX's nodes that are attributes of Kerf's.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "partitioner/onnx/free_batch.h"
#include "partitioner/onnx/importer.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::AttributeType;
using ops::DType;
using ops::TensorLiteral;

constexpr size_t kMostAttribute = size_t{1} << 20;  // bytes

// Of floats without fractions, as some operators may have them.
std::optional<Integers> whole_numbers(const TensorLiteral& literal) {
  if (literal.dtype != DType::kFloat32) return std::nullopt;
  Integers whole{DType::kInt64, {literal.shape.begin(), literal.shape.end()}, {}};
  for (size_t at = 0; at < literal.bytes.size(); at += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, literal.bytes.data() + at, sizeof(number));
    if (!(std::abs(number) < 0x1p53F) || std::trunc(number) != number) return std::nullopt;
    whole.elements.push_back({0, static_cast<int64_t>(number)});
  }
  return whole;
}

// An attribute of one number is a double. What a double is beyond the integers is their last, so
// that the last itself may be said.
template <class T>
double exact_number(T number) {
  const auto kept = static_cast<double>(number);
  constexpr T kLast = std::numeric_limits<T>::max();
  const T back = kept >= static_cast<double>(kLast) ? kLast : static_cast<T>(kept);
  if (back != number)
    throw Error(
        ErrorCode::kUsage,
        format("{} has more digits than the 53 bits that are kept of a number here", number));
  return kept;
}

std::vector<double> numbers_of(const TensorLiteral& literal) {
  std::vector<double> numbers;
  const auto count = static_cast<size_t>(literal.shape.elements());
  for (size_t i = 0; i < count; ++i) {
    if (literal.dtype == DType::kFloat32) {
      float number = 0;
      std::memcpy(&number, literal.bytes.data() + i * sizeof(number), sizeof(number));
      numbers.push_back(static_cast<double>(number));
    } else if (literal.dtype == DType::kUint64) {
      uint64_t number = 0;
      std::memcpy(&number, literal.bytes.data() + i * sizeof(number), sizeof(number));
      numbers.push_back(exact_number(number));
    }
  }
  // Of uint64 not every number is an integer of a shape.
  if (literal.dtype == DType::kFloat32 || literal.dtype == DType::kUint64) return numbers;
  const auto integers = integers_of(literal);
  if (!integers)
    throw Error(ErrorCode::kUsage,
                format("a constant of {} is no number here", ops::to_string(literal.dtype)));
  for (const Affine& each : integers->elements) numbers.push_back(exact_number(each.fixed));
  return numbers;
}

}  // namespace

std::vector<int64_t> resized_axes(const GraphNode& resize, int rank) {
  std::vector<int64_t> all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return ops::attribute_ints(resize.attributes, "axes", all);
}

// Whether an end of a Slice, by its place, is that of the batch, and along it.
bool Importer::ends_with_batch(const GraphNode& node, size_t place, const Affine& end) const {
  if (!is_computed(node, 0)) return false;
  std::optional<std::vector<int64_t>> axes;
  if (node.inputs.size() > 3 && !node.inputs[3].empty()) {
    const auto found = integers(node.inputs[3]);
    if (found) axes = fixed_elements(*found);
  } else if (node.attributes.contains("axes")) {
    axes = ops::attribute_ints(node.attributes, "axes", {});
  } else {
    axes.emplace(place + 1);
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (!axes || place >= axes->size()) return false;
  const ops::Shape shape = shape_of(node.inputs[0]);
  const int axis = ops::resolved_axis("Slice", (*axes)[place], shape.rank());
  return axis == shape.batch_axis() && end == Affine{-shape[axis], 0};
}

// Whether an extent that a node asks for is what its input has along the batch.
bool Importer::keeps_samples(const GraphNode& node, const std::string& attribute, size_t place,
                             const Affine& extent) const {
  if (!is_computed(node, 0)) return false;
  const ops::Shape shape = shape_of(node.inputs[0]);
  if (!shape.batched() || !(extent == Affine{-shape[shape.batch_axis()], 0})) return false;
  if (node.op == "Resize" && attribute == "sizes") {
    const std::vector<int64_t> axes = resized_axes(node, shape.rank());
    return place < axes.size() &&
           ops::resolved_axis("Resize", axes[place], shape.rank()) == shape.batch_axis();
  }
  if (node.op != "Expand" || node.inputs.size() < 2) return false;
  const auto wanted = integers(node.inputs[1]);
  const auto behind = shape.rank() - shape.batch_axis();
  return wanted && static_cast<int64_t>(wanted->elements.size() - place) == behind;
}

// Extents that count samples: Reshape, Expand and Resize have -1 for them, and a slice to the end
// of the batch ends where everything does.
std::vector<int64_t> Importer::ints_for(const GraphNode& node, const std::string& attribute,
                                        const Integers& integers) {
  if (node.op == "Reshape" && !options_.whole_inputs && is_computed(node, 0))
    return free_shape(node, integers.elements);
  std::vector<int64_t> values;
  for (size_t i = 0; i < integers.elements.size(); ++i) {
    const Affine& each = integers.elements[i];
    if (each.is_fixed())
      values.push_back(each.fixed);
    else if (node.op == "Expand" && each == Affine{1, 0})
      values.push_back(ops::kBatch);
    else if (keeps_samples(node, attribute, i, each))
      values.push_back(node.op == "Expand" ? 1 : ops::kBatch);
    else if (node.op == "Slice" && attribute == "ends" && ends_with_batch(node, i, each))
      values.push_back(std::numeric_limits<int64_t>::max());
    else
      refuse(format("its {} has {}N + {} at {}, which depends on how large the batch N is",
                    attribute, each.of_batch, each.fixed, i));
  }
  return values;
}

ops::Attribute Importer::attribute_of(const ops::OperatorDefinition& definition,
                                      const ops::InputAttribute& place, const GraphNode& node,
                                      const std::string& input) {
  const auto formal =
      std::find_if(definition.attributes.begin(), definition.attributes.end(),
                   [&](const ops::FormalAttribute& each) { return each.name == place.name; });
  KERF_CHECK(formal != definition.attributes.end(), "{} lists no attribute {}", node.op,
             place.name);
  if (std::holds_alternative<ValueId>(known(input)))
    refuse(format("its {}, input {}, must be the same for all samples", place.name, place.input));
  if (formal->type == AttributeType::kInts || formal->type == AttributeType::kInt) {
    auto found = integers(input);
    if (!found) found = whole_numbers(literal(input, kMostAttribute));
    if (!found) refuse(format("its {} must be integers", place.name));
    const std::vector<int64_t> values = ints_for(node, place.name, *found);
    if (formal->type == AttributeType::kInts) return values;
    if (values.size() != 1) refuse(format("its {} must be one integer", place.name));
    return values[0];
  }
  const TensorLiteral constant = literal(input, kMostAttribute);
  if (formal->type == AttributeType::kTensor) return constant;
  const std::vector<double> numbers = numbers_of(constant);
  if (formal->type == AttributeType::kFloats) return numbers;
  if (formal->type != AttributeType::kFloat || numbers.size() != 1)
    refuse(format("its {} must be one number", place.name));
  return numbers[0];
}

double Importer::ratio_of(const GraphNode& node) const {
  if (node.inputs.size() < 2 || node.inputs[1].empty())
    return ops::attribute_float(node.attributes, "ratio", 0.5);
  const std::vector<double> ratio = numbers_of(literal(node.inputs[1], kMostAttribute));
  if (ratio.size() != 1) refuse("its ratio must be one number");
  return ratio[0];
}

// Of one that trains: when it does, the run knows.
void Importer::take_dropout_ratio(GraphNode& node) {
  if (node.outputs.size() > 1) refuse("its mask is not known here; nothing may read it");
  node.attributes["ratio"] = ratio_of(node);
  node.inputs.resize(1);
}

void Importer::take_input_attributes(const ops::OperatorDefinition& definition, GraphNode& node) {
  for (const ops::InputAttribute& place : definition.input_attributes) {
    const auto at = static_cast<size_t>(place.input);
    if (at >= node.inputs.size() || node.inputs[at].empty()) continue;
    // Before it was an input, there were none, or others in its place.
    if (graph_.opset < place.first_opset && node.attributes.contains(place.name)) continue;
    node.attributes[place.name] = attribute_of(definition, place, node, node.inputs[at]);
    node.inputs[at].clear();
  }
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  if (node.op == "Resize") leave_samples_out(node);
  if (node.op != "Reshape" || options_.whole_inputs) return;
  // An attribute's, of a file that fixes the batch, too.
  const auto shape = node.attributes.find("shape");
  if (shape == node.attributes.end() || !is_computed(node, 0)) return;
  std::vector<Affine> wanted;
  for (const int64_t extent : ops::attribute_ints(node.attributes, "shape", {}))
    wanted.push_back({0, extent});
  shape->second = free_shape(node, wanted);
}

}  // namespace kerf::partitioner::onnx
