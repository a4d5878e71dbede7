// Concat on the CPU: rows copied from several tensors into one, and back for the gradients.
#include "ops/cpu/stretches.h"
#include "ops/kernel.h"
#include "ops/operators/concat.h"

namespace kerf::ops::cpu {
namespace {

class ConcatKernel final : public PlainKernel {
 public:
  explicit ConcatKernel(std::vector<Stretch> inputs) : inputs_(std::move(inputs)) {}

  void forward(const Call& call) override {
    for (size_t i = 0; i < inputs_.size(); ++i)
      put_stretch(call.inputs[i].data, call.outputs[0], inputs_[i], false);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      take_stretch(call.output_gradients[0], inputs_[static_cast<size_t>(target.input)],
                   target.to.data, target.accumulate);
  }

 private:
  std::vector<Stretch> inputs_;
};

}  // namespace

KernelEntries register_concat() {
  return {{.op = "Concat", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             const LocalSpecs local =
                 local_specs(site.op, site.iterations, site.largest, site.largest);
             return std::make_unique<ConcatKernel>(
                 stretches_of(local.inputs, site.as<Concat>().axis()));
           }}};
}

}  // namespace kerf::ops::cpu
