#include "ops/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ops/name_pattern.h"
#include "ops/simd/simd.h"

namespace kerf::ops {
namespace {

// One pass over memory each: these loops are bound by it. Compiled without contraction to fused
// multiply-adds, so that every instruction set gives the same bits.

KERF_CLONES void sgd_step(float* __restrict w, const float* __restrict g, int64_t count,
                          const UpdateRule& rule, float scale) {
  const float rate = rule.rate;
  const float decay = rule.decay;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float step = scale * g[i];
    step = decay != 0 ? step + decay * w[i] : step;
    w[i] -= rate * step;
  }
}

KERF_CLONES void momentum_step(float* __restrict w, const float* __restrict g, float* __restrict v,
                               int64_t count, const UpdateRule& rule, float scale) {
  const float rate = rule.rate;
  const float decay = rule.decay;
  const float momentum = rule.momentum;
  const bool nesterov = rule.nesterov;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float step = scale * g[i];
    step = decay != 0 ? step + decay * w[i] : step;
    const float velocity = momentum * v[i] + step;
    v[i] = velocity;
    w[i] -= rate * (nesterov ? step + momentum * velocity : velocity);
  }
}

KERF_CLONES void adagrad_step(float* __restrict w, const float* __restrict g, float* __restrict s,
                              int64_t count, const UpdateRule& rule, float scale) {
  const float rate = rule.rate;
  const float decay = rule.decay;
  const float epsilon = rule.epsilon;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float step = scale * g[i];
    step = decay != 0 ? step + decay * w[i] : step;
    const float squares = s[i] + step * step;
    s[i] = squares;
    w[i] -= rate * step / (std::sqrt(squares) + epsilon);
  }
}

KERF_CLONES void adam_step(float* __restrict w, const float* __restrict g, float* __restrict m,
                           float* __restrict v, int64_t count, const UpdateRule& of, float scale) {
  const UpdateRule rule = of;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float step = scale * g[i];
    step = rule.decay != 0 ? step + rule.decay * w[i] : step;
    const float mean = rule.beta1 * m[i] + rule.one_less_beta1 * step;
    const float square = rule.beta2 * v[i] + rule.one_less_beta2 * step * step;
    m[i] = mean;
    v[i] = square;
    const float below = std::sqrt(square) / rule.root + rule.epsilon;
    w[i] = rule.kept * w[i] - rule.rate * mean / below;
  }
}

void check_same(const TensorView& parameter, const TensorView& other, const char* what) {
  KERF_CHECK(other.dtype == DType::kFloat32 && other.shape == parameter.shape,
             "{} is {} {}, the parameter float32 {}", what, to_string(other.dtype),
             to_string(other.shape), to_string(parameter.shape));
}

// By squaring: the same bits whatever library there is.
double to_the_power(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 != 0) power *= base;
  return power;
}

void require(bool fine, const std::string& what) {
  if (!fine) throw Error(ErrorCode::kUsage, what);
}

// What counts is the float that the arithmetic will use.
bool is_share(double value) {
  return static_cast<float>(value) >= 0 && static_cast<float>(value) < 1;
}
bool is_size(double value) {
  return static_cast<float>(value) >= 0 && std::isfinite(static_cast<float>(value));
}

}  // namespace

float clip_scale(double most_norm, double squared_norm) {
  if (most_norm == 0) return 1;
  return static_cast<float>(std::min(1.0, most_norm / (std::sqrt(squared_norm) + 1e-6)));
}

void update(const UpdateRule& rule, float scale, const TensorView& parameter,
            const TensorView& gradient, std::span<const TensorView> states) {
  check_same(parameter, parameter, "the parameter");
  check_same(parameter, gradient, "the gradient");
  KERF_CHECK(std::ssize(states) == states_of(rule.kind), "{} states instead of {}", states.size(),
             states_of(rule.kind));
  for (const TensorView& state : states) check_same(parameter, state, "the state");
  float* w = parameter.f32();
  const float* g = gradient.f32();
  const auto step = [&](int64_t begin, int64_t end) {
    const auto state = [&](size_t i) { return states[i].f32() + begin; };
    const int64_t count = end - begin;
    switch (rule.kind) {
      case UpdateKind::kSgd:
        return sgd_step(w + begin, g + begin, count, rule, scale);
      case UpdateKind::kMomentum:
        return momentum_step(w + begin, g + begin, state(0), count, rule, scale);
      case UpdateKind::kAdagrad:
        return adagrad_step(w + begin, g + begin, state(0), count, rule, scale);
      case UpdateKind::kAdam:
        return adam_step(w + begin, g + begin, state(0), state(1), count, rule, scale);
    }
  };
  simd::parallel_pieces(parameter.elements(), simd::kLeastElements, step);
}

Optimizer::Optimizer(OptimizerOptions options) : options_(std::move(options)) {
  const OptimizerOptions& o = options_;
  require(o.name == "sgd" || o.name == "adagrad" || o.name == "adam" || o.name == "adamw",
          format("optimizer \"{}\" is unknown; there are sgd, adagrad, adam and adamw", o.name));
  const auto rate = static_cast<float>(o.learning_rate);
  require(rate > 0 && std::isfinite(rate),
          format("the learning rate is {}; it is positive and finite", o.learning_rate));
  require(is_share(o.momentum),
          format("the momentum is {}; it is at least 0 and less than 1", o.momentum));
  require(o.name == "sgd" || (o.momentum == 0 && !o.nesterov),
          format("momentum is of sgd, not of {}", o.name));
  require(!o.nesterov || o.momentum > 0, "Nesterov's step looks ahead by a momentum above 0");
  for (const double beta : {o.beta1, o.beta2})
    require(is_share(beta), format("a beta is {}; it is at least 0 and less than 1", beta));
  require(static_cast<float>(o.epsilon) > 0 && is_size(o.epsilon),
          format("epsilon is {}; it is positive and finite", o.epsilon));
  require(is_size(o.weight_decay),
          format("the weight decay is {}; it is at least 0 and finite", o.weight_decay));
  require(o.most_norm >= 0 && std::isfinite(o.most_norm),
          format("the norm to clip at is {}; it is positive and finite", o.most_norm));
}

UpdateKind Optimizer::kind() const {
  if (options_.name == "adagrad") return UpdateKind::kAdagrad;
  if (options_.name != "sgd") return UpdateKind::kAdam;
  return options_.momentum == 0 ? UpdateKind::kSgd : UpdateKind::kMomentum;
}

bool Optimizer::decays(const std::string& parameter) const {
  return !fits_any(parameter, options_.no_decay);
}

UpdateRule Optimizer::rule(const Pace& pace, bool decays) const {
  const OptimizerOptions& o = options_;
  const double decay = decays ? o.weight_decay : 0;
  UpdateRule rule;
  rule.kind = kind();
  rule.rate = static_cast<float>(pace.learning_rate);
  rule.most_norm = o.most_norm;
  if (o.name == "adamw")
    rule.kept = static_cast<float>(1 - pace.learning_rate * decay);
  else
    rule.decay = static_cast<float>(decay);
  rule.momentum = static_cast<float>(o.momentum);
  rule.nesterov = o.nesterov;
  rule.epsilon = static_cast<float>(o.epsilon);
  if (rule.kind != UpdateKind::kAdam) return rule;
  rule.rate = static_cast<float>(pace.learning_rate / (1 - to_the_power(o.beta1, pace.step)));
  rule.root = static_cast<float>(std::sqrt(1 - to_the_power(o.beta2, pace.step)));
  rule.beta1 = static_cast<float>(o.beta1);
  rule.one_less_beta1 = static_cast<float>(1 - o.beta1);
  rule.beta2 = static_cast<float>(o.beta2);
  rule.one_less_beta2 = static_cast<float>(1 - o.beta2);
  return rule;
}

}  // namespace kerf::ops
