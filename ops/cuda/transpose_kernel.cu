// Transpose on a GPU: every element of the output fetches its own.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/broadcast.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/element_size.h"
#include "ops/operators/transpose.h"

namespace kerf::ops::cuda {
namespace {

// The output's axes, with how far apart the input's elements lie along them.
AxisSteps steps_of(const Shape& input, const std::vector<int>& perm) {
  int64_t strides[Shape::kMaxRank];
  int64_t stride = 1;
  for (int i = input.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= input[i];
  }
  AxisSteps steps;
  for (size_t i = perm.size(); i-- > 0;) steps.add(input[perm[i]], 0, strides[perm[i]]);
  return steps;
}

template <class T>
struct Fetch {
  const T* from;
  AxisSteps axes;
  T* to;
  KERF_DEVICE void operator()(int64_t i) const { to[i] = from[axes.operand_at(i)]; }
};

struct FetchAndAdd {
  const float* from;
  AxisSteps axes;
  float* to;
  KERF_DEVICE void operator()(int64_t i) const { to[i] += from[axes.operand_at(i)]; }
};

class TransposeKernel final : public PlainKernel {
 public:
  TransposeKernel(const Queue& queue, const std::vector<int>& perm)
      : queue_(queue), perm_(perm), back_(perm.size()) {
    for (size_t i = 0; i < perm.size(); ++i)
      back_[static_cast<size_t>(perm[i])] = static_cast<int>(i);
  }

  void forward(const Call& call) override {
    transpose(call.inputs[0], perm_, call.outputs[0], false);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      transpose(call.output_gradients[0], back_, target.to, target.accumulate);
  }

 private:
  void transpose(const TensorView& from, const std::vector<int>& perm, const TensorView& to,
                 bool accumulate) const {
    const AxisSteps steps = steps_of(from.shape, perm);
    if (accumulate)
      return for_each(queue_, to.elements(), FetchAndAdd{from.f32(), steps, to.f32()});
    with_element(from.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_each(queue_, to.elements(), Fetch<T>{from.as<T>(), steps, to.as<T>()});
    });
  }

  const Queue& queue_;
  std::vector<int> perm_;
  std::vector<int> back_;
};

}  // namespace

KernelEntries register_transpose() {
  return {{.op = "Transpose", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<TransposeKernel>(queue_of(site), site.as<Transpose>().perm());
           }}};
}

}  // namespace kerf::ops::cuda
