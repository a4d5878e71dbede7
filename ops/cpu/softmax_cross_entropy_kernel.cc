// Cross-entropy of softmax on the CPU: with m the row's maximum,
//   loss = log(sum exp(s - m)) + m - s[label],   d loss / d s = exp(s - logsumexp) - [label].
#include <cmath>

#include "ops/cpu/kernels.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

double log_sum_exp(const float* scores, int64_t classes) {
  const float most = *std::max_element(scores, scores + classes);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(scores[c] - most);
  return static_cast<double>(most) + std::log(sum);
}

class SoftmaxCrossEntropyKernel final : public Kernel {
 public:
  void forward(const Call& call) override {
    const TensorView& scores = call.inputs[0];
    const int64_t rows = scores.shape[0];
    const int64_t classes = scores.shape[1];
    auto* saved = reinterpret_cast<float*>(call.saved);
    double loss = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const float* s = scores.f32() + row * classes;
      const int64_t label = call.inputs[1].i64()[row];
      if (label < 0 || label >= classes)
        throw Error(ErrorCode::kUsage,
                    format("the label of sample {} of the step is {}, but there are {} classes",
                           call.first_sample + row, label, classes));
      const double denominator = log_sum_exp(s, classes);
      if (saved != nullptr) saved[row] = static_cast<float>(denominator);
      loss += denominator - static_cast<double>(s[label]);
    }
    *call.outputs[0].f32() = static_cast<float>(loss / call.normaliser);
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const bool given = !call.output_gradients.empty() && call.output_gradients[0].data != nullptr;
    const double upstream = given ? static_cast<double>(*call.output_gradients[0].f32()) : 1.0;
    const auto scale = static_cast<float>(upstream / call.normaliser);
    for (const auto& target : targets) {
      KERF_CHECK(target.input == 0, "labels have no gradient");
      const TensorView& scores = call.inputs[0];
      const int64_t classes = scores.shape[1];
      simd::parallel_pieces(scores.shape[0], 1 + 4096 / classes, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) row_gradient(call, row, scale, target);
      });
    }
  }

 private:
  static void row_gradient(const Call& call, int64_t row, float scale,
                           const GradientTarget& target) {
    const int64_t classes = call.inputs[0].shape[1];
    const float* s = call.inputs[0].f32() + row * classes;
    const float denominator = reinterpret_cast<const float*>(call.saved)[row];
    const int64_t label = call.inputs[1].i64()[row];
    float* to = target.to.f32() + row * classes;
    for (int64_t c = 0; c < classes; ++c) {
      const float gradient = (std::exp(s[c] - denominator) - (c == label ? 1.0F : 0.0F)) * scale;
      to[c] = target.accumulate ? to[c] + gradient : gradient;
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_cross_entropy_kernel() {
  return std::make_unique<SoftmaxCrossEntropyKernel>();
}

}  // namespace kerf::ops::cpu
