#include "ops/optimizer.h"

#include <cmath>

#include "ops/kernel.h"
#include "ops/simd/simd.h"

namespace kerf::ops {
namespace {

// One pass over memory each: these loops are bound by it. Compiled without contraction to fused
// multiply-adds, so that every instruction set gives the same bits.

KERF_CLONES void plain_step(float* __restrict w, const float* __restrict g, int64_t count,
                            float rate) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) w[i] -= rate * g[i];
}

KERF_CLONES void momentum_step(float* __restrict w, const float* __restrict g, float* __restrict v,
                               int64_t count, float rate, float momentum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float velocity = momentum * v[i] + g[i];
    v[i] = velocity;
    w[i] -= rate * velocity;
  }
}

void check_same(const TensorView& parameter, const TensorView& other, const char* what) {
  KERF_CHECK(other.dtype == DType::kFloat32 && other.shape == parameter.shape,
             "{} is {} {}, the parameter float32 {}", what, to_string(other.dtype),
             to_string(other.shape), to_string(parameter.shape));
}

class Sgd : public Optimizer {
 public:
  Sgd(float rate, float momentum) : rate_(rate), momentum_(momentum) {}

  int states() const override { return momentum_ == 0 ? 0 : 1; }
  SgdRule rule() const override { return {rate_, momentum_}; }

  void update(const TensorView& parameter, const TensorView& gradient,
              std::span<const TensorView> states) const override {
    check_same(parameter, parameter, "the parameter");
    check_same(parameter, gradient, "the gradient");
    KERF_CHECK(std::ssize(states) == this->states(), "{} states instead of {}", states.size(),
               this->states());
    for (const TensorView& state : states) check_same(parameter, state, "the state");
    float* w = parameter.f32();
    const float* g = gradient.f32();
    float* v = states.empty() ? nullptr : states[0].f32();
    simd::parallel_pieces(
        parameter.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
          if (v == nullptr)
            plain_step(w + begin, g + begin, end - begin, rate_);
          else
            momentum_step(w + begin, g + begin, v + begin, end - begin, rate_, momentum_);
        });
  }

 private:
  float rate_;
  float momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          runtime::Device& device) {
  if (options.name != "sgd")
    throw Error(ErrorCode::kUsage, format("optimizer \"{}\" is unknown; use sgd", options.name));
  // What counts is the float that the arithmetic will use.
  const auto rate = static_cast<float>(options.learning_rate);
  const auto momentum = static_cast<float>(options.momentum);
  if (!(rate > 0 && std::isfinite(rate)))
    throw Error(ErrorCode::kUsage, format("the learning rate is {}; it is positive and finite",
                                          options.learning_rate));
  if (!(momentum >= 0 && momentum < 1))
    throw Error(ErrorCode::kUsage,
                format("the momentum is {}; it is at least 0 and less than 1", options.momentum));
  if (device.kind() != runtime::DeviceKind::kCpu && device.kind() != runtime::DeviceKind::kCuda)
    throw_no_kernel(options.name, device);
  return std::make_unique<Sgd>(rate, momentum);
}

}  // namespace kerf::ops
