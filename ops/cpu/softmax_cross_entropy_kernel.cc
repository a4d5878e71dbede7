// Cross-entropy of softmax on the CPU: with m the row's maximum,
//   loss = log(sum exp(s - m)) + m - s[label],   d loss / d s = exp(s - logsumexp) - [label].
//
// Scores [N, C, ...] are N blocks of C x positions; a row is one position of one sample.
#include <cmath>

#include "ops/activation_kernel.h"
#include "ops/row_place.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

struct ScoreRows {
  explicit ScoreRows(const Shape& scores) : samples(scores[0]), classes(scores[1]) {
    for (int i = 2; i < scores.rank(); ++i) positions *= scores[i];
  }
  int64_t count() const { return samples * positions; }
  // Of its first score; the others are `positions` apart.
  int64_t begin(int64_t row) const {
    return row / positions * classes * positions + row % positions;
  }

  int64_t samples;
  int64_t classes;
  int64_t positions = 1;
};

double log_sum_exp(const float* scores, int64_t classes, int64_t stride) {
  float most = scores[0];
  for (int64_t c = 1; c < classes; ++c) most = std::max(most, scores[c * stride]);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(scores[c * stride] - most);
  return static_cast<double>(most) + std::log(sum);
}

class SoftmaxCrossEntropyKernel final : public ActivationKernel {
 public:
  explicit SoftmaxCrossEntropyKernel(const KernelSite& site)
      : iterations_(site.iterations), labels_(site.op.inputs()[1].spec.shape) {}

  void forward(const Call& call) override {
    const TensorView& scores = call.inputs[0];
    const ScoreRows rows(scores.shape);
    const int64_t* labels = call.inputs[1].i64();
    auto* denominators = reinterpret_cast<double*>(call.reserve.data());
    double loss = 0;
    for (int64_t row = 0; row < rows.count(); ++row) {
      const float* s = scores.f32() + rows.begin(row);
      const int64_t label = labels[row];
      if (label < 0 || label >= rows.classes) refuse_label(call, row, label, rows.classes);
      const double denominator = log_sum_exp(s, rows.classes, rows.positions);
      if (denominators != nullptr) denominators[row] = denominator;
      loss += denominator - static_cast<double>(s[label * rows.positions]);
    }
    *call.outputs[0].f32() = static_cast<float>(loss / call.normaliser);
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const bool given = !call.output_gradients.empty() && call.output_gradients[0].data != nullptr;
    const double upstream = given ? static_cast<double>(*call.output_gradients[0].f32()) : 1.0;
    const auto scale = static_cast<float>(upstream / call.normaliser);
    for (const GradientTarget& target : targets) {
      KERF_CHECK(target.input == 0, "labels have no gradient");
      const ScoreRows rows(call.inputs[0].shape);
      simd::parallel_pieces(rows.count(), 1 + 4096 / rows.classes, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          row_gradient(call, rows, row, scale, target.to.f32());
      });
    }
  }

 private:
  // Scores near 1e4 leave a float denominator 5e-4 wrong: it is subtracted in double.
  static void row_gradient(const Call& call, const ScoreRows& rows, int64_t row, float scale,
                           float* to) {
    const float* s = call.inputs[0].f32() + rows.begin(row);
    const double denominator = reinterpret_cast<const double*>(call.reserve.data())[row];
    const int64_t label = call.inputs[1].i64()[row];
    to += rows.begin(row);
    for (int64_t c = 0; c < rows.classes; ++c) {
      const int64_t i = c * rows.positions;
      const auto exponent = static_cast<float>(static_cast<double>(s[i]) - denominator);
      to[i] = (std::exp(exponent) - (c == label ? 1.0F : 0.0F)) * scale;
    }
  }

  // Names the row by its place in the whole step, of which this part may have a share.
  [[noreturn]] void refuse_label(const Call& call, int64_t row, int64_t label,
                                 int64_t classes) const {
    throw Error(ErrorCode::kUsage,
                format("the label of sample {} of the step is {}, but there are {} classes",
                       row_place(iterations_, call.inputs[1].shape,
                                 labels_.with_batch(call.samples), call.first_sample, row),
                       label, classes));
  }

  Box iterations_;
  Shape labels_;  // of the whole, maybe symbolic
};

std::unique_ptr<Kernel> make_softmax_cross_entropy(const KernelSite& site) {
  return std::make_unique<SoftmaxCrossEntropyKernel>(site);
}

}  // namespace

KernelEntries register_softmax_cross_entropy() {
  return {{"SoftmaxCrossEntropyLoss", make_softmax_cross_entropy}};
}

}  // namespace kerf::ops::cpu
