// Cast (ONNX): the same numbers as another type.
//
//   input of any type   output of the type whose number in ONNX is `to`
//
// Numbers are rounded to the nearest floating-point number, to integers towards zero; an integer
// wraps around where it does not fit, a floating-point number becomes the nearest that does.
// `saturate` and `round_mode` are of types of 8 bits, which Kerf has not. Iterations: the axes.
#include "ops/image_format.h"
#include "ops/onnx_types.h"

namespace kerf::ops {
namespace {

DType type_to(const Attributes& attributes) {
  const int64_t number = attribute_int(attributes, "to", 0);
  if (const auto dtype = dtype_of_onnx(number)) return *dtype;
  throw Error(
      ErrorCode::kUsage,
      format("Cast wants an attribute `to`, the number in ONNX of a type that is known here, "
             "not {}",
             number));
}

class Cast final : public BoundOperator {
 public:
  explicit Cast(const NodeFacts& facts) : BoundOperator("Cast", facts) {
    outputs_ = {{type_to(facts.attributes), shape(0)}};
    const OperandMap map = same_axes(shape(0).rank());
    space_ = {axes_of_image(image_format(facts), shape(0)), {map}, {map}};
  }

  Cost cost(const LocalSpecs& local) const override {
    const double n = static_cast<double>(local.outputs[0].shape.elements());
    const double bytes =
        n * static_cast<double>(size_of(input(0).spec.dtype) + size_of(outputs_[0].dtype));
    const bool floats = is_floating(input(0).spec.dtype) && is_floating(outputs_[0].dtype);
    return {n, floats ? n : 0, 0, bytes, floats ? bytes : 0, 0};
  }
  BackwardReads backward_reads() const override { return {}; }
};

}  // namespace

OperatorDefinitions define_cast() {
  return {{.name = "Cast",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes =
               {{"to"}, {"saturate"}, {"round_mode", AttributeType::kString}, format_attribute()},
           .bind = bind_as<Cast>,
           .channels_last = image_channels_last,
           .first_opset = 6}};  // before it, `to` was a name
}

}  // namespace kerf::ops
