// Split on the CPU: rows copied from one tensor into several, and back for the gradient.
#include "ops/cpu/stretches.h"
#include "ops/kernel.h"
#include "ops/operators/split.h"

namespace kerf::ops::cpu {
namespace {

class SplitKernel final : public PlainKernel {
 public:
  explicit SplitKernel(std::vector<Stretch> outputs) : outputs_(std::move(outputs)) {}

  void forward(const Call& call) override {
    for (size_t i = 0; i < outputs_.size(); ++i)
      take_stretch(call.inputs[0], outputs_[i], call.outputs[i].data, false);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      for (size_t i = 0; i < outputs_.size(); ++i)
        put_stretch(call.output_gradients[i].data, target.to, outputs_[i], target.accumulate);
  }

 private:
  std::vector<Stretch> outputs_;
};

}  // namespace

KernelEntries register_split() {
  return {
      {.op = "Split", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
         const LocalSpecs local = local_specs(site.op, site.iterations, site.largest, site.largest);
         return std::make_unique<SplitKernel>(stretches_of(local.outputs, site.as<Split>().axis()));
       }}};
}

}  // namespace kerf::ops::cpu
