// Element-wise functions of one input: Y = f(X), of any shape. The entries are in
// ops/elementwise.h.
#include "ops/elementwise.h"

#include "ops/image_format.h"

namespace kerf::ops {
namespace {

class ElementwiseOperator final : public BoundOperator {
 public:
  ElementwiseOperator(std::string_view name, const NodeFacts& facts, double flops,
                      bool reads_output)
      : BoundOperator(name, facts), flops_(flops), reads_output_(reads_output) {
    want_float32(name, input(0), "X");
    outputs_ = {input(0).spec};
    const OperandMap map = same_axes(shape(0).rank());
    space_ = {axes_of_image(image_format(facts.attributes), shape(0)), {map}, {map}};
  }

  Cost cost(const LocalSpecs& local) const override {
    const double n = static_cast<double>(local.outputs[0].shape.elements());
    return {flops_ * n, flops_ * n, 0, 8 * n, 12 * n, 0};
  }
  BackwardReads backward_reads() const override {
    BackwardReads reads;
    (reads_output_ ? reads.outputs_for_input_gradient : reads.inputs_for_input_gradient) = {0};
    return reads;
  }
  bool may_overwrite(int) const override { return reads_output_; }

 private:
  double flops_;
  bool reads_output_;
};

}  // namespace

OperatorDefinitions define_elementwise() {
  OperatorDefinitions all;
  for_each_elementwise([&](const auto& entry) {
    OperatorDefinition definition{.name = entry.name, .inputs = {{"X"}}, .outputs = {{"Y"}}};
    definition.attributes = {format_attribute()};
    definition.channels_last = image_channels_last;
    definition.bind = [&entry](const NodeFacts& facts) {
      return std::make_unique<ElementwiseOperator>(entry.name, facts, entry.flops,
                                                   entry.reads_output);
    };
    all.push_back(std::move(definition));
  });
  return all;
}

}  // namespace kerf::ops
