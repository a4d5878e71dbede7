// Nodes that count: their results are numbers that follow from others that are known.
#include <cmath>
#include <cstring>
#include <numbers>

#include "partitioner/onnx/importer.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

constexpr double kMostOfASequence = 1 << 24;  // numbers

// Of cosines of the first and the second order; HannWindow, HammingWindow, BlackmanWindow.
struct WindowTerms {
  double mean = 0;
  double first = 0;
  double second = 0;
};

std::optional<WindowTerms> window_terms(const std::string& op) {
  if (op == "HannWindow") return WindowTerms{0.5, -0.5, 0};
  if (op == "HammingWindow") return WindowTerms{25.0 / 46, -21.0 / 46, 0};
  if (op == "BlackmanWindow") return WindowTerms{0.42, -0.5, 0.08};
  return std::nullopt;
}

double one_float(const ops::TensorLiteral& literal) {
  if (literal.dtype != DType::kFloat32 || literal.shape.elements() != 1)
    throw Error(ErrorCode::kUsage, "it wants one number for each of its inputs");
  float number = 0;
  std::memcpy(&number, literal.bytes.data(), sizeof(number));
  return static_cast<double>(number);
}

}  // namespace

// Range of floats, and windows of so many samples.
bool Importer::fold_sequence(const GraphNode& node) {
  const auto window = window_terms(node.op);
  if ((!window && node.op != "Range") || node.inputs.empty() || node.outputs.empty()) return false;
  for (const std::string& input : node.inputs)
    if (input.empty() || !is_constant(input))
      refuse("how many numbers it gives must be the same for all samples");
  std::string bytes;
  const auto begin = [&](int64_t length) {
    const auto numbers = static_cast<size_t>(length);
    budget_.take(numbers * sizeof(float), static_cast<double>(length));
    bytes.reserve(numbers * sizeof(float));
  };
  const auto append = [&](double number) {
    const auto narrow = static_cast<float>(number);
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  };
  const auto count = [&](double wanted) {
    if (!(wanted <= kMostOfASequence)) refuse(format("{} numbers are too many", wanted));
    return wanted > 0 ? static_cast<int64_t>(wanted) : 0;
  };
  if (window) {
    const auto size = integers(node.inputs[0]);
    if (!size || size->elements.size() != 1) refuse("its size must be one integer");
    if (ops::attribute_int(node.attributes, "output_datatype", 1) != 1)
      refuse("it gives float32 only");
    const bool periodic = ops::attribute_int(node.attributes, "periodic", 1) != 0;
    const int64_t length = count(static_cast<double>(size->elements[0].fixed));
    const double turn = 2 * std::numbers::pi / static_cast<double>(periodic ? length : length - 1);
    begin(length);
    for (int64_t i = 0; i < length; ++i) {
      const double at = turn * static_cast<double>(i);
      append(window->mean + window->first * std::cos(at) + window->second * std::cos(2 * at));
    }
  } else {
    if (node.inputs.size() != 3) refuse("it has a start, a limit and a step");
    const double start = one_float(literal(node.inputs[0], sizeof(float)));
    const double limit = one_float(literal(node.inputs[1], sizeof(float)));
    const double step = one_float(literal(node.inputs[2], sizeof(float)));
    if (step == 0) refuse("its step is 0");
    const int64_t length = count(std::ceil((limit - start) / step));
    begin(length);
    for (int64_t i = 0; i < length; ++i) append(start + static_cast<double>(i) * step);
  }
  const auto length = static_cast<int64_t>(bytes.size() / sizeof(float));
  set(node.outputs[0], Fixed{node.outputs[0],
                             {DType::kFloat32, {length}},
                             contents_of(std::move(bytes), DType::kFloat32)});
  return true;
}

}  // namespace kerf::partitioner::onnx
