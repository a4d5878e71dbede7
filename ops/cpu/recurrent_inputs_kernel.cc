// RecurrentInputs on the CPU: a product over the rows of all steps, in the order in which X has
// them, put into the outputs of the steps, or gathered from their gradients.
#include <algorithm>

#include "ops/cpu/matrix_product.h"
#include "ops/kernel.h"
#include "ops/local_index.h"
#include "ops/operators/recurrent_inputs.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {
namespace {

class RecurrentInputsKernel final : public PlainKernel {
 public:
  explicit RecurrentInputsKernel(const KernelSite& site)
      : op_(site.as<RecurrentInputs>()),
        steps_(site.iterations.axes[static_cast<size_t>(op_.time_axis())], op_.steps()) {}

  void forward(const Call& call) override {
    const Extents e(op_, call.inputs[0].shape, call.inputs[1].shape);
    if (e.rows() * e.outputs == 0) return;
    Workspace workspace(call.workspace);
    auto* all = workspace.take<float>(e.rows() * e.outputs);
    matmul_.run(e.forward(), {call.inputs[0].f32(), false}, {call.inputs[1].f32(), true}, nullptr,
                all, workspace);
    for (int64_t t = 0; t < e.steps; ++t) {
      float* to = call.outputs[static_cast<size_t>(steps_.global(t))].f32();
      for (int64_t s = 0; s < e.samples; ++s)
        std::copy_n(all + e.row(t, s) * e.outputs, e.outputs, to + s * e.outputs);
    }
  }

  static size_t workspace(const RecurrentInputs& op, const LocalSpecs& local, int threads) {
    const Extents e(op, local.inputs[0].shape, local.inputs[1].shape);
    if (e.rows() * e.outputs == 0) return 0;
    size_t product = MatrixProduct::workspace_bytes(e.forward(), false, true, false, threads);
    for (const bool accumulate : {false, true})
      product = std::max(
          {product,
           MatrixProduct::workspace_bytes(e.of_x(accumulate), false, false, false, threads),
           MatrixProduct::workspace_bytes(e.of_w(accumulate), true, false, false, threads)});
    return piece_bytes<float>(e.rows() * e.outputs) + product;
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const Extents e(op_, call.inputs[0].shape, call.inputs[1].shape);
      if (e.rows() * e.outputs == 0) {
        if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
        continue;
      }
      Workspace workspace(call.workspace);
      auto* all = workspace.take<float>(e.rows() * e.outputs);
      gather(call, e, all);
      if (target.input == 1)
        matmul_.run(e.of_w(target.accumulate), {all, true}, {call.inputs[0].f32(), false}, nullptr,
                    target.to.f32(), workspace);
      else
        matmul_.run(e.of_x(target.accumulate), {all, false}, {call.inputs[1].f32(), false}, nullptr,
                    target.to.f32(), workspace);
    }
  }

 private:
  // Of one call.
  struct Extents {
    int64_t steps = 0;
    int64_t samples = 0;
    int64_t inputs = 0;
    int64_t outputs = 0;
    bool samples_first = false;

    Extents(const RecurrentInputs& op, const Shape& x, const Shape& w)
        : steps(x[op.samples_first() ? 1 : 0]),
          samples(x[op.samples_first() ? 0 : 1]),
          inputs(w[2]),
          outputs(w[1]),
          samples_first(op.samples_first()) {}
    int64_t rows() const { return steps * samples; }
    int64_t row(int64_t t, int64_t s) const {
      return samples_first ? s * steps + t : t * samples + s;
    }
    using Product = MatrixProduct::Problem;
    Product forward() const { return {.m = rows(), .n = outputs, .k = inputs}; }
    Product of_x(bool accumulate) const {
      return {.m = rows(), .n = inputs, .k = outputs, .accumulate = accumulate};
    }
    Product of_w(bool accumulate) const {
      return {.m = outputs, .n = inputs, .k = rows(), .accumulate = accumulate};
    }
  };

  void gather(const Call& call, const Extents& e, float* all) const {
    for (int64_t t = 0; t < e.steps; ++t) {
      const float* from = call.output_gradients[static_cast<size_t>(steps_.global(t))].f32();
      for (int64_t s = 0; s < e.samples; ++s) {
        float* to = all + e.row(t, s) * e.outputs;
        if (from == nullptr)
          std::fill_n(to, e.outputs, 0.0F);
        else
          std::copy_n(from + s * e.outputs, e.outputs, to);
      }
    }
  }

  const RecurrentInputs& op_;
  LocalIndex steps_;
  MatrixProduct matmul_;
};

}  // namespace

KernelEntries register_recurrent_inputs() {
  return {{"RecurrentInputs",
           [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<RecurrentInputsKernel>(site);
           },
           [](const BoundOperator& op, const LocalSpecs& local, int threads) {
             return RecurrentInputsKernel::workspace(static_cast<const RecurrentInputs&>(op), local,
                                                     threads);
           }}};
}

}  // namespace kerf::ops::cpu
