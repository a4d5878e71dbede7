// No operator is said to be known in opsets in which ONNX had no such operator.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "ops/operator.h"

namespace kerf::ops {
namespace {

struct FirstVersion {
  const char* name;
  int opset;
};

// The opset that brought each operator that came after the first, of ONNX 1.23's schemas; those of
// sequences, strings and optional values left out.
constexpr std::array kFirstVersions{
    FirstVersion{"Acos", 7},
    FirstVersion{"Acosh", 9},
    FirstVersion{"AffineGrid", 20},
    FirstVersion{"Asin", 7},
    FirstVersion{"Asinh", 9},
    FirstVersion{"Atan", 7},
    FirstVersion{"Atanh", 9},
    FirstVersion{"Attention", 23},
    FirstVersion{"Bernoulli", 15},
    FirstVersion{"BitCast", 26},
    FirstVersion{"BitShift", 11},
    FirstVersion{"BitwiseAnd", 18},
    FirstVersion{"BitwiseNot", 18},
    FirstVersion{"BitwiseOr", 18},
    FirstVersion{"BitwiseXor", 18},
    FirstVersion{"BlackmanWindow", 17},
    FirstVersion{"CastLike", 15},
    FirstVersion{"CausalConvWithState", 27},
    FirstVersion{"Celu", 12},
    FirstVersion{"CenterCropPad", 18},
    FirstVersion{"Col2Im", 18},
    FirstVersion{"Compress", 9},
    FirstVersion{"ConstantOfShape", 9},
    FirstVersion{"ConvInteger", 10},
    FirstVersion{"Cos", 7},
    FirstVersion{"Cosh", 9},
    FirstVersion{"CumProd", 26},
    FirstVersion{"CumSum", 11},
    FirstVersion{"DFT", 17},
    FirstVersion{"DeformConv", 19},
    FirstVersion{"DequantizeLinear", 10},
    FirstVersion{"Det", 11},
    FirstVersion{"DynamicQuantizeLinear", 11},
    FirstVersion{"Einsum", 12},
    FirstVersion{"Erf", 9},
    FirstVersion{"Expand", 8},
    FirstVersion{"EyeLike", 9},
    FirstVersion{"GatherElements", 11},
    FirstVersion{"GatherND", 11},
    FirstVersion{"Gelu", 20},
    FirstVersion{"GreaterOrEqual", 12},
    FirstVersion{"GridSample", 16},
    FirstVersion{"GroupNormalization", 18},
    FirstVersion{"HammingWindow", 17},
    FirstVersion{"HannWindow", 17},
    FirstVersion{"HardSwish", 14},
    FirstVersion{"ImageDecoder", 20},
    FirstVersion{"IsInf", 10},
    FirstVersion{"IsNaN", 9},
    FirstVersion{"LayerNormalization", 17},
    FirstVersion{"LessOrEqual", 12},
    FirstVersion{"LinearAttention", 27},
    FirstVersion{"MatMulInteger", 10},
    FirstVersion{"MaxUnpool", 9},
    FirstVersion{"MeanVarianceNormalization", 9},
    FirstVersion{"MelWeightMatrix", 17},
    FirstVersion{"Mish", 18},
    FirstVersion{"Mod", 10},
    FirstVersion{"Multinomial", 7},
    FirstVersion{"NegativeLogLikelihoodLoss", 12},
    FirstVersion{"NonMaxSuppression", 10},
    FirstVersion{"NonZero", 9},
    FirstVersion{"OneHot", 9},
    FirstVersion{"QLinearConv", 10},
    FirstVersion{"QLinearMatMul", 10},
    FirstVersion{"QuantizeLinear", 10},
    FirstVersion{"RMSNormalization", 23},
    FirstVersion{"Range", 11},
    FirstVersion{"Resize", 10},
    FirstVersion{"RoiAlign", 10},
    FirstVersion{"RotaryEmbedding", 23},
    FirstVersion{"Round", 11},
    FirstVersion{"STFT", 17},
    FirstVersion{"Scan", 8},
    FirstVersion{"Scatter", 9},
    FirstVersion{"ScatterElements", 11},
    FirstVersion{"ScatterND", 11},
    FirstVersion{"Shrink", 9},
    FirstVersion{"Sign", 9},
    FirstVersion{"Sin", 7},
    FirstVersion{"Sinh", 9},
    FirstVersion{"SoftmaxCrossEntropyLoss", 12},
    FirstVersion{"SwiGLU", 28},
    FirstVersion{"Swish", 24},
    FirstVersion{"Tan", 7},
    FirstVersion{"TensorScatter", 24},
    FirstVersion{"TfIdfVectorizer", 9},
    FirstVersion{"ThresholdedRelu", 10},
    FirstVersion{"Trilu", 14},
    FirstVersion{"Unique", 11},
    FirstVersion{"Where", 9},
};

TEST(OperatorOpsets, BeginNoEarlierThanOnnxHasTheOperator) {
  int known = 0;
  for (const FirstVersion& each : kFirstVersions) {
    const std::vector<std::string> names = operator_names();
    if (std::find(names.begin(), names.end(), each.name) == names.end()) continue;
    ++known;
    EXPECT_GE(find_operator(each.name).first_opset, each.opset) << each.name;
  }
  EXPECT_GE(known, 50);
}

}  // namespace
}  // namespace kerf::ops
