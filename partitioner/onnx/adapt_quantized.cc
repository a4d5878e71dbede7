// Operators of quantized numbers, as operators of float32 compute them: exact for 8 bits, whose
// products and sums of them a float holds.
#include <algorithm>

#include "ops/onnx_types.h"
#include "partitioner/onnx/adapting.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;
using Ints = std::vector<int64_t>;

struct Bounds {
  double least = 0;
  double most = 0;
};

Bounds bounds_of(DType dtype) {
  if (dtype == DType::kUint8) return {0, 255};
  if (dtype == DType::kInt8) return {-128, 127};
  if (dtype == DType::kUint16) return {0, 65535};
  if (dtype == DType::kInt16) return {-32768, 32767};
  no_meaning(format("numbers are quantized to 8 or 16 bits, not to {}", ops::to_string(dtype)));
}

int64_t onnx_float() { return ops::onnx_type(DType::kFloat32); }

class Quantizing : public NodeChain {
 public:
  explicit Quantizing(const Older& older) : NodeChain(older), older_(older) {}

  std::string as_float(const std::string& value) {
    return add("Cast", {value}, {{"to", onnx_float()}});
  }
  // Input `input` of one number for each index of `axis`, of what has `rank` axes.
  std::string along(const std::string& value, const ops::Shape& shape, int rank, int64_t axis) {
    if (shape.rank() == 0 || (shape.rank() == 1 && shape[0] == 1 && rank < 2)) return value;
    if (shape.rank() > 1) no_meaning("a scale for each block is not known here");
    Ints axes;
    for (int64_t i = 1; i < rank - axis; ++i) axes.push_back(i);
    return axes.empty() ? value : add("Unsqueeze", {value}, {{"axes", axes}});
  }
  // Input `input` as float32, less its zero point.
  std::string centred(size_t input, size_t zero, int64_t axis) {
    std::string x = as_float(older_.input(input));
    if (!older_.has_input(zero)) return x;
    const int rank = older_.shape_of(input).rank();
    return add("Sub",
               {x, along(as_float(older_.node.inputs[zero]), older_.shape_of(zero), rank, axis)});
  }
  // round(value) + zero, as far as the type goes. No zero: empty.
  void quantize(const std::string& value, const std::string& zero, DType to) {
    std::string rounded = add("Round", {value});
    if (!zero.empty()) rounded = add("Add", {rounded, zero});
    const Bounds bounds = bounds_of(to);
    const std::string limited =
        add("Clip", {rounded}, {{"min", bounds.least}, {"max", bounds.most}});
    add("Cast", {limited}, {{"to", int64_t{ops::onnx_type(to)}}});
  }

 private:
  const Older& older_;
};

// Of the scales, where there are several.
int64_t scale_axis(Older& older) {
  if (older.taken_int("block_size", 0) != 0) no_meaning("a scale for each block is not known here");
  older.node.attributes.erase("saturate");
  const int64_t axis = older.taken_int("axis", 1);
  if (older.shape_of(1).rank() == 0) return 0;
  const int rank = older.shape_of(0).rank();
  if (axis < -rank || axis >= std::max(rank, 2)) no_meaning(format("there is no axis {}", axis));
  return axis < 0 ? axis + rank : axis;
}

Adapted quantize_linear(Older older) {
  const int64_t axis = scale_axis(older);
  const int rank = older.shape_of(0).rank();
  Quantizing made(older);
  const std::string scale = made.along(older.input(1), older.shape_of(1), rank, axis);
  const auto output = ops::dtype_of_onnx(older.taken_int("output_dtype", 0));
  DType to = output.value_or(DType::kUint8);
  std::string zero;
  if (older.has_input(2)) {
    to = older.spec_of(2).dtype;
    zero = made.along(made.as_float(older.node.inputs[2]), older.shape_of(2), rank, axis);
  }
  made.quantize(made.add("Div", {made.as_float(older.node.inputs[0]), scale}), zero, to);
  return made.end();
}

Adapted dequantize_linear(Older older) {
  const int64_t axis = scale_axis(older);
  Quantizing made(older);
  const std::string centred = made.centred(0, 2, axis);
  made.add("Mul", {centred,
                   made.along(older.input(1), older.shape_of(1), older.shape_of(0).rank(), axis)});
  return made.end();
}

// 0 to 255 from the least to the greatest number, and 0 among them. Gives scale and zero point too.
Adapted dynamic_quantize_linear(const Older& older) {
  Quantizing made(older);
  const std::string& x = older.input(0);
  const std::string nothing = made.filled({}, 0);
  const std::string steps = made.filled({}, 255);
  const ops::Attributes one{{"keepdims", int64_t{0}}};
  const std::string most = made.add("Max", {made.add("ReduceMax", {x}, one), nothing});
  const std::string least = made.add("Min", {made.add("ReduceMin", {x}, one), nothing});
  const auto& outputs = older.node.outputs;
  const auto named = [&](size_t i) { return i < outputs.size() ? outputs[i] : std::string(); };
  const std::string scale = made.add("Div", {made.add("Sub", {most, least}), steps}, {}, named(1));
  const std::string low = made.add("Div", {made.add("Sub", {nothing, least}), scale});
  const std::string zero =
      made.add("Clip", {made.add("Round", {low})}, {{"min", 0.0}, {"max", 255.0}});
  made.add("Cast", {zero}, {{"to", int64_t{ops::onnx_type(DType::kUint8)}}}, named(2));
  made.quantize(made.add("Div", {x, scale}), zero, DType::kUint8);
  return made.end();
}

Adapted as_int32(Quantizing& made, const std::string& value) {
  made.add("Cast", {value}, {{"to", int64_t{ops::onnx_type(DType::kInt32)}}});
  return made.end();
}

// Zero points of rows of the first factor, and of columns of the second.
Adapted matmul_integer(const Older& older) {
  Quantizing made(older);
  const std::string a = made.centred(0, 2, older.shape_of(0).rank() - 2);
  const std::string b = made.centred(1, 3, older.shape_of(1).rank() - 1);
  return as_int32(made, made.add("MatMul", {a, b}));
}

Adapted conv_integer(const Older& older) {
  Quantizing made(older);
  const std::string x = made.centred(0, 2, 0);
  const std::string w = made.centred(1, 3, 0);
  return as_int32(made, made.add("Conv", {x, w}, older.node.attributes));
}

// A product of whole numbers by what they mean in those of the result.
Adapted requantized(Older& older, Quantizing& made, const std::string& product,
                    const std::string& other_scale) {
  const std::string of_both = made.add("Mul", {older.input(1), other_scale});
  const std::string step = made.add("Div", {of_both, older.input(6)});
  made.quantize(made.add("Mul", {product, step}), made.as_float(older.input(7)),
                older.spec_of(7).dtype);
  return made.end();
}

void want_one_scale(const Older& older, size_t input) {
  const ops::Shape shape = older.shape_of(input);
  if (shape.batched() || shape.elements() != 1)
    no_meaning(
        format("its input {} has a scale for each row or column, which is not known here", input));
}

Adapted qlinear_matmul(Older older) {
  for (const size_t input : {1, 4, 6}) want_one_scale(older, input);
  Quantizing made(older);
  const std::string a = made.centred(0, 2, 0);
  const std::string b = made.centred(3, 5, 0);
  const std::string product = made.add("MatMul", {a, b});
  return requantized(older, made, product, older.node.inputs[4]);
}

Adapted qlinear_conv(Older older) {
  for (const size_t input : {1, 6}) want_one_scale(older, input);
  Quantizing made(older);
  const int rank = older.shape_of(0).rank();
  std::vector<std::string> inputs{made.centred(0, 2, 0), made.centred(3, 5, 0)};
  if (older.has_input(8)) inputs.push_back(made.as_float(older.node.inputs[8]));
  const std::string sum = made.add("Conv", inputs, older.node.attributes);
  const std::string scale = made.along(older.input(4), older.shape_of(4), rank, 1);
  return requantized(older, made, sum, scale);
}

}  // namespace

const AdaptRows& quantized_rows() {
  static const AdaptRows rows{{"QuantizeLinear", quantize_linear},
                              {"DequantizeLinear", dequantize_linear},
                              {"DynamicQuantizeLinear", dynamic_quantize_linear},
                              {"MatMulInteger", matmul_integer},
                              {"ConvInteger", conv_integer},
                              {"QLinearMatMul", qlinear_matmul},
                              {"QLinearConv", qlinear_conv}};
  return rows;
}

}  // namespace kerf::partitioner::onnx
