// Losses of labels on the CPU. Of scores, with m the row's maximum,
//   loss = log(sum exp(s - m)) + m - s[label],   d loss / d s = exp(s - logsumexp) - [label],
// and of logarithms of probabilities loss = -s[label].
//
// Scores [N, C, ...] are N blocks of C x positions; a row is one position of one sample.
#include <cmath>

#include "ops/activation_kernel.h"
#include "ops/operators/label_loss.h"
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

class LabelLossKernel final : public ActivationKernel {
 public:
  explicit LabelLossKernel(const KernelSite& site)
      : ActivationKernel(site.op), op_(site.as<LabelLoss>()), iterations_(site.iterations) {}

  void forward(const Call& call) override {
    const ScoreRows rows(call.inputs[0].shape);
    double loss = 0;
    double weights = 0;
    for (int64_t row = 0; row < rows.count(); ++row) {
      const double weight = checked_weight(call, row, rows.classes);
      const double term = row_loss(call, rows, row, weight);
      loss += term;
      weights += weight;
      if (op_.reduction() == LossReduction::kNone)
        call.outputs[0].f32()[row] = static_cast<float>(term);
    }
    if (op_.divides_by_weights() && !call.reserve.empty())
      denominators(call)[op_.of_scores() ? rows.count() : 0] = weights;
    if (op_.reduction() == LossReduction::kNone) return;
    const double divisor = op_.divides_by_weights()                  ? weights
                           : op_.reduction() == LossReduction::kMean ? call.normaliser
                                                                     : 1;
    *call.outputs[0].f32() = static_cast<float>(loss == 0 ? 0 : loss / divisor);
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const ScoreRows rows(call.inputs[0].shape);
    for (const GradientTarget& target : targets) {
      KERF_CHECK(target.input == 0, "labels have no gradient");
      simd::parallel_pieces(rows.count(), 1 + 4096 / rows.classes, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          row_gradient(call, rows, row, target.to.f32());
          add_gradient_of_shares(call, rows, row, target.to.f32());
        }
      });
    }
  }

 private:
  static double* denominators(const Call& call) {
    return reinterpret_cast<double*>(call.reserve.data());
  }

  static int64_t label_of(const Call& call, int64_t row) {
    const TensorView& labels = call.inputs[1];
    return labels.dtype == DType::kInt64 ? labels.i64()[row] : labels.as<int32_t>()[row];
  }

  bool is_ignored(int64_t label) const { return op_.ignored() == label; }

  float weight_of(const Call& call, int64_t label) const {
    if (is_ignored(label)) return 0;
    return op_.weighted() ? call.inputs[2].f32()[label] : 1;
  }

  double checked_weight(const Call& call, int64_t row, int64_t classes) const {
    const int64_t label = label_of(call, row);
    if (!is_ignored(label) && (label < 0 || label >= classes))
      refuse_label(call, row, label, classes);
    return static_cast<double>(weight_of(call, label));
  }

  double row_loss(const Call& call, const ScoreRows& rows, int64_t row, double weight) const {
    const float* s = call.inputs[0].f32() + rows.begin(row);
    const int64_t label = label_of(call, row);
    double denominator = 0;
    if (op_.of_scores()) {
      denominator = log_sum_exp(s, rows.classes, rows.positions);
      if (!call.reserve.empty()) denominators(call)[row] = denominator;
      if (call.outputs.size() > 1 && call.outputs[1].data != nullptr)
        for (int64_t c = 0; c < rows.classes; ++c)
          call.outputs[1].f32()[rows.begin(row) + c * rows.positions] =
              static_cast<float>(static_cast<double>(s[c * rows.positions]) - denominator);
    }
    if (is_ignored(label)) return 0;
    return weight * (denominator - static_cast<double>(s[label * rows.positions]));
  }

  // What flows back into the loss of a row.
  float row_scale(const Call& call, const ScoreRows& rows, int64_t row) const {
    const bool given = !call.output_gradients.empty() && call.output_gradients[0].data != nullptr;
    const bool of_row = op_.reduction() == LossReduction::kNone;
    const double upstream =
        given ? static_cast<double>(call.output_gradients[0].f32()[of_row ? row : 0])
              : (op_.is_loss() ? 1.0 : 0.0);
    double divisor = op_.reduction() == LossReduction::kMean ? call.normaliser : 1;
    if (op_.divides_by_weights()) divisor = denominators(call)[op_.of_scores() ? rows.count() : 0];
    const double scaled = divisor == 0 ? 0 : upstream / divisor;
    return static_cast<float>(scaled) * weight_of(call, label_of(call, row));
  }

  // Scores near 1e4 leave a float denominator 5e-4 wrong: it is subtracted in double.
  void row_gradient(const Call& call, const ScoreRows& rows, int64_t row, float* to) const {
    const float scale = row_scale(call, rows, row);
    const int64_t label = label_of(call, row);
    to += rows.begin(row);
    if (!op_.of_scores()) {
      for (int64_t c = 0; c < rows.classes; ++c)
        to[c * rows.positions] = c == label ? -scale : 0.0F;
      return;
    }
    const float* s = call.inputs[0].f32() + rows.begin(row);
    const double denominator = denominators(call)[row];
    for (int64_t c = 0; c < rows.classes; ++c) {
      const int64_t i = c * rows.positions;
      const auto exponent = static_cast<float>(static_cast<double>(s[i]) - denominator);
      to[i] = (std::exp(exponent) - (c == label ? 1.0F : 0.0F)) * scale;
    }
  }

  // Of log_prob: dy - softmax * sum(dy).
  static void add_gradient_of_shares(const Call& call, const ScoreRows& rows, int64_t row,
                                     float* to) {
    if (call.output_gradients.size() < 2 || call.output_gradients[1].data == nullptr) return;
    const float* s = call.inputs[0].f32() + rows.begin(row);
    const float* dy = call.output_gradients[1].f32() + rows.begin(row);
    const double denominator = denominators(call)[row];
    double sum = 0;
    for (int64_t c = 0; c < rows.classes; ++c) sum += static_cast<double>(dy[c * rows.positions]);
    to += rows.begin(row);
    for (int64_t c = 0; c < rows.classes; ++c) {
      const int64_t i = c * rows.positions;
      const double share = std::exp(static_cast<double>(s[i]) - denominator);
      to[i] += static_cast<float>(static_cast<double>(dy[i]) - share * sum);
    }
  }

  // Names the row by its place in the whole step, of which this part may have a share.
  [[noreturn]] void refuse_label(const Call& call, int64_t row, int64_t label,
                                 int64_t classes) const {
    throw Error(ErrorCode::kUsage,
                format("the label of sample {} of the step is {}, but there are {} classes",
                       row_place(iterations_, call.inputs[1].shape,
                                 op_.inputs()[1].spec.shape.with_batch(call.samples),
                                 call.first_sample, row),
                       label, classes));
  }

  const LabelLoss& op_;
  Box iterations_;
};

std::unique_ptr<Kernel> make_label_loss(const KernelSite& site) {
  return std::make_unique<LabelLossKernel>(site);
}

}  // namespace

KernelEntries register_label_loss() {
  return {{"SoftmaxCrossEntropyLoss", make_label_loss},
          {"NegativeLogLikelihoodLoss", make_label_loss}};
}

}  // namespace kerf::ops::cpu
