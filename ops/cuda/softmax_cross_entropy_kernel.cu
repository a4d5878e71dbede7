// Cross-entropy of softmax on a GPU, as on the CPU: with m the row's maximum,
//   loss = log(sum exp(s - m)) + m - s[label],   d loss / d s = exp(s - logsumexp) - [label].
//
// Scores [N, C, ...] are N blocks of C x positions; a row is one position of one sample, and a
// block of threads.
#include <cmath>

#include "ops/activation_kernel.h"
#include "ops/cuda/axis_lines.cuh"
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/fault.cuh"
#include "ops/operators/label_loss.h"
#include "ops/row_place.h"
#include "ops/workspace.h"

namespace kerf::ops::cuda {
namespace {

// A label that is no class is found when the losses are summed, and counts as class 0 until then.
struct RowLoss {
  using First = float;
  using Second = double;
  AxisLines rows;
  const float* scores;
  const int64_t* labels;
  double* denominators;  // reserved; null in evaluation
  double* losses;
  KERF_DEVICE int64_t length(int64_t) const { return rows.length; }
  KERF_DEVICE First first(int64_t row, int64_t i) const { return scores[rows.at(row, i)]; }
  KERF_DEVICE static First first_zero() { return -INFINITY; }
  KERF_DEVICE static First join_first(First a, First b) { return a < b ? b : a; }
  KERF_DEVICE Second second(int64_t row, int64_t i, First most) const {
    return static_cast<double>(std::exp(scores[rows.at(row, i)] - most));
  }
  KERF_DEVICE static Second second_zero() { return 0; }
  KERF_DEVICE static Second join_second(Second a, Second b) { return a + b; }
  KERF_DEVICE void finish(int64_t row, First most, Second sum) const {
    const double denominator = static_cast<double>(most) + std::log(sum);
    if (denominators != nullptr) denominators[row] = denominator;
    const int64_t label = labels[row] < 0 || labels[row] >= rows.length ? 0 : labels[row];
    losses[row] = denominator - static_cast<double>(scores[rows.at(row, label)]);
  }
  KERF_DEVICE void each(int64_t, int64_t, First, Second) const {}
};

struct SumOfLosses {
  struct Value {
    double loss;
    int64_t wrong;  // the first row whose label is no class
  };
  const double* losses;
  const int64_t* labels;
  int64_t rows;
  int64_t classes;
  double normaliser;
  float* to;
  FaultPlace fault;
  KERF_DEVICE int64_t length(int64_t) const { return rows; }
  KERF_DEVICE Value term(int64_t, int64_t i) const {
    return {losses[i], labels[i] < 0 || labels[i] >= classes ? i : INT64_MAX};
  }
  KERF_DEVICE static Value zero() { return {0, INT64_MAX}; }
  KERF_DEVICE static Value join(const Value& a, const Value& b) {
    return {a.loss + b.loss, a.wrong < b.wrong ? a.wrong : b.wrong};
  }
  KERF_DEVICE void finish(int64_t, const Value& sum) const {
    *to = static_cast<float>(sum.loss / normaliser);
    if (sum.wrong < rows) fault.keep(sum.wrong, labels[sum.wrong]);
  }
};

// Scores near 1e4 leave a float denominator 5e-4 wrong: it is subtracted in double.
struct ScoreGradient {
  AxisLines rows;
  const float* scores;
  const int64_t* labels;
  const double* denominators;
  const float* upstream;  // null: 1
  double normaliser;
  float* to;
  KERF_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / (rows.length * rows.inner) * rows.inner + i % rows.inner;
    const int64_t label = i / rows.inner % rows.length;
    const double given = upstream == nullptr ? 1.0 : static_cast<double>(*upstream);
    const auto scale = static_cast<float>(given / normaliser);
    const auto exponent = static_cast<float>(static_cast<double>(scores[i]) - denominators[row]);
    to[i] = (std::exp(exponent) - (label == labels[row] ? 1.0F : 0.0F)) * scale;
  }
};

class SoftmaxCrossEntropyKernel final : public ActivationKernel {
 public:
  explicit SoftmaxCrossEntropyKernel(const KernelSite& site)
      : ActivationKernel(site.op),
        queue_(queue_of(site)),
        report_(workbench_of(site),
                [&op = site.op, box = site.iterations, largest = site.largest](const Fault& fault) {
                  refuse_label(op, box, largest, fault);
                }) {}

  void forward(const Call& call) override {
    const TensorView& scores = call.inputs[0];
    const TensorView& labels = call.inputs[1];
    const AxisLines rows = rows_of(scores.shape);
    const int64_t count = labels.elements();
    double* losses = Workspace(call.workspace).take<double>(count);
    reduce_rows_twice(queue_, count,
                      RowLoss{rows, scores.f32(), labels.i64(),
                              reinterpret_cast<double*>(call.reserve.data()), losses});
    reduce_rows(queue_, 1,
                SumOfLosses{losses, labels.i64(), count, rows.length, call.normaliser,
                            call.outputs[0].f32(), fault_place(report_, call)});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* upstream =
        call.output_gradients.empty() ? nullptr : call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      KERF_CHECK(target.input == 0, "labels have no gradient");
      for_each(
          queue_, target.to.elements(),
          ScoreGradient{rows_of(call.inputs[0].shape), call.inputs[0].f32(), call.inputs[1].i64(),
                        reinterpret_cast<const double*>(call.reserve.data()), upstream,
                        call.normaliser, target.to.f32()});
    }
  }

 private:
  static AxisLines rows_of(const Shape& scores) {
    AxisLines rows{scores[1], 1};
    for (int i = 2; i < scores.rank(); ++i) rows.inner *= scores[i];
    return rows;
  }

  [[noreturn]] static void refuse_label(const BoundOperator& op, const Box& box, int64_t largest,
                                        const Fault& fault) {
    const LocalSpecs local = local_specs(op, box, largest, fault.samples);
    const Shape whole = op.inputs()[1].spec.shape.with_batch(fault.samples);
    throw Error(ErrorCode::kUsage,
                format("the label of sample {} of the step is {}, but there are {} classes",
                       row_place(box, local.inputs[1].shape, whole, fault.first_sample, fault.at),
                       fault.value, local.inputs[0].shape[1]));
  }

  const Queue& queue_;
  FaultReport report_;
};

}  // namespace

KernelEntries register_softmax_cross_entropy() {
  return {{.op = "SoftmaxCrossEntropyLoss",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             if (!site.as<LabelLoss>().is_plain())
               throw Error(ErrorCode::kUnavailable,
                           format("SoftmaxCrossEntropyLoss on device {} is the mean over int64 "
                                  "labels that weigh the same; run others on device cpu",
                                  site.bench.device().name()));
             return std::make_unique<SoftmaxCrossEntropyKernel>(site);
           },
           .workspace =
               [](const BoundOperator&, const LocalSpecs& local, int) {
                 return piece_bytes<double>(local.inputs[1].shape.elements());  // the rows' losses
               }}};
}

}  // namespace kerf::ops::cuda
