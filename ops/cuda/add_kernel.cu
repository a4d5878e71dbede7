// Add on a GPU, with one input repeated over the other.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/broadcast.cuh"
#include "ops/cuda/cuda_workbench.h"

namespace kerf::ops::cuda {
namespace {

struct AddRepeated {
  const float* full;
  const float* other;
  AxisSteps axes;
  float* y;
  KERF_DEVICE void operator()(int64_t i) const { y[i] = full[i] + other[axes.operand_at(i)]; }
};

struct AddAlike {
  const float* a;
  const float* b;
  float* y;
  KERF_DEVICE void operator()(int64_t i) const { y[i] = a[i] + b[i]; }
};

// Row r is an element of the repeated input.
struct SumRepetitions : Adding<double> {
  const float* dy;
  AxisSteps own;
  AxisSteps repeated;
  int64_t repetitions;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t) const { return repetitions; }
  KERF_DEVICE double term(int64_t row, int64_t i) const {
    return static_cast<double>(dy[own.whole_at(row) + repeated.whole_at(i)]);
  }
  KERF_DEVICE void finish(int64_t row, double sum) const {
    put(to + row, accumulate, static_cast<float>(sum));
  }
};

class AddKernel final : public PlainKernel {
 public:
  explicit AddKernel(const Queue& queue) : queue_(queue) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    const bool first_is_full = call.inputs[0].shape == y.shape;
    const TensorView& full = call.inputs[first_is_full ? 0 : 1];
    const TensorView& other = call.inputs[first_is_full ? 1 : 0];
    if (other.shape == y.shape)
      for_each(queue_, y.elements(), AddAlike{full.f32(), other.f32(), y.f32()});
    else
      for_each(queue_, y.elements(),
               AddRepeated{full.f32(), other.f32(), Broadcast(other.shape, y.shape).all, y.f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (target.to.shape == dy.shape) {
        copy_or_add(queue_, dy.f32(), dy.elements(), target.to.f32(), target.accumulate);
        continue;
      }
      const Broadcast broadcast(target.to.shape, dy.shape);
      reduce_rows(queue_, target.to.elements(),
                  SumRepetitions{{},
                                 dy.f32(),
                                 broadcast.own,
                                 broadcast.repeated,
                                 broadcast.repeated.elements(),
                                 target.to.f32(),
                                 target.accumulate});
    }
  }

 private:
  const Queue& queue_;
};

}  // namespace

KernelEntries register_add() {
  return {{.op = "Add", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<AddKernel>(queue_of(site));
           }}};
}

}  // namespace kerf::ops::cuda
