// Cases of numbers at the ends of their types, NaN among them: of what chooses, moves or computes
// element by element, and of sums and rows.
#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

// By which of their inputs are numbers, and no indices, lengths or conditions.
constexpr const char* kNumbersAlone =
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr "
    "BitwiseXor Cast Ceil Celu Clip Concat Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater "
    "GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min "
    "Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh "
    "Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Xor";
constexpr const char* kNumbersFirst =
    "ArgMax ArgMin Compress CumSum DepthToSpace Expand Flatten Gather GatherElements GatherND "
    "GlobalMaxPool Hardmax Identity LogSoftmax MaxPool Pad ReduceL1 ReduceLogSum ReduceLogSumExp "
    "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape ReverseSequence "
    "Slice Softmax SpaceToDepth Split Squeeze Tile TopK Transpose Trilu Unsqueeze";
constexpr const char* kNumbersButTheSecond = "ScatterElements ScatterND";
constexpr const char* kNumbersButTheFirst = "Where";

bool names_operator(const char* ops, const std::string& op) {
  std::istringstream words(ops);
  return std::count(std::istream_iterator<std::string>(words), {}, op) > 0;
}

bool is_number(const std::string& op, size_t input) {
  return names_operator(kNumbersAlone, op) || (names_operator(kNumbersFirst, op) && input == 0) ||
         (names_operator(kNumbersButTheSecond, op) && input != 1) ||
         (names_operator(kNumbersButTheFirst, op) && input != 0);
}

// Whether the order of a sum or a product, which is not said, makes another result, or references
// do not know which bits are kept.
bool has_no_one_answer(const OperatorCase& scene) {
  const bool floats = is_floating(scene.inputs[0].spec.dtype);
  const std::string rule = attribute_string(scene.attributes, "reduction", "none");
  if (!floats && scene.op == "CumSum") return true;
  return (floats && scene.op == "ReduceProd") || rule == "add" || rule == "mul";
}

}  // namespace

std::vector<OperatorCase> extreme_cases() {
  std::vector<OperatorCase> cases;
  for (OperatorCase& scene : operator_cases()) {
    if (has_no_one_answer(scene)) continue;
    bool any = false;
    for (size_t i = 0; i < scene.inputs.size(); ++i) {
      if (!is_number(scene.op, i)) continue;
      scene.inputs[i].draw = Draw::kExtreme;
      any = true;
    }
    scene.name += "_of_extremes";
    if (any) cases.push_back(std::move(scene));
  }
  return cases;
}

}  // namespace kerf::ops
