// SumLoss on the CPU: summed in double, in ascending order.
#include <array>

#include "ops/kernel.h"

namespace kerf::ops::cpu {
namespace {

// Calls work(i, j) for every element i of x in order, and j of the weights repeated over it.
template <class Work>
void for_pairs(const Shape& x, const Shape& weights, const Work& work) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  const int shift = x.rank() - weights.rank();
  for (int i = weights.rank() - 1; i >= 0; --i) {
    const int axis = i + shift;
    strides[static_cast<size_t>(axis)] = weights[i] == 1 ? 0 : stride;
    stride *= weights[i];
  }
  std::array<int64_t, Shape::kMaxRank> index{};
  const int64_t count = x.elements();
  int64_t j = 0;
  for (int64_t i = 0; i < count; ++i) {
    work(i, j);
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      j += strides[a];
      if (++index[a] < x[axis]) break;
      j -= strides[a] * index[a];
      index[a] = 0;
    }
  }
}

class SumLossKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    const bool weighted = call.inputs.size() > 1 && call.inputs[1].data != nullptr;
    const float* weights = weighted ? call.inputs[1].f32() : nullptr;
    double sum = 0;
    if (!weighted)
      for (int64_t i = 0; i < call.inputs[0].elements(); ++i) sum += static_cast<double>(x[i]);
    else
      for_pairs(call.inputs[0].shape, call.inputs[1].shape, [&](int64_t i, int64_t j) {
        sum += static_cast<double>(x[i]) * static_cast<double>(weights[j]);
      });
    *call.outputs[0].f32() = static_cast<float>(sum / call.normaliser);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const bool given = !call.output_gradients.empty() && call.output_gradients[0].data != nullptr;
    const double upstream = given ? static_cast<double>(*call.output_gradients[0].f32()) : 1.0;
    const auto scale = static_cast<float>(upstream / call.normaliser);
    const bool weighted = call.inputs.size() > 1 && call.inputs[1].data != nullptr;
    const Shape weights = weighted ? call.inputs[1].shape : Shape{};
    for (const GradientTarget& target : targets)
      for_pairs(target.to.shape, weights, [&](int64_t i, int64_t j) {
        const float gradient = weighted ? scale * call.inputs[1].f32()[j] : scale;
        float& to = target.to.f32()[i];
        to = target.accumulate ? to + gradient : gradient;
      });
  }
};

}  // namespace

KernelEntries register_sum_loss() {
  return {{.op = "SumLoss", .make = [](const KernelSite&) -> std::unique_ptr<Kernel> {
             return std::make_unique<SumLossKernel>();
           }}};
}

}  // namespace kerf::ops::cpu
