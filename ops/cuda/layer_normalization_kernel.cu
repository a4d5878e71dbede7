// LayerNormalization on a GPU, a row to a block. With n the normalised X, d its inverse deviation
// and g = dY * Scale,
//   dX = d * (g - mean(g) - n * mean(g * n)),   dScale = sum of dY * n,   dB = sum of dY.
#include <cmath>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/operators/layer_normalization.h"

namespace kerf::ops::cuda {
namespace {

struct NormaliseRow {
  using First = float;
  using Second = float;
  int64_t rows;
  int64_t columns;
  const float* x;
  const float* scale;
  const float* bias;  // null: 0
  float epsilon;
  float* mean_output;  // null: nobody wants it
  float* inverse_output;
  float* reserve;  // the same; null in evaluation
  float* y;

  KERF_DEVICE int64_t length(int64_t) const { return columns; }
  KERF_DEVICE float inverse(Second squares) const {
    return 1.0F / std::sqrt(squares / static_cast<float>(columns) + epsilon);
  }
  KERF_DEVICE float centred(int64_t row, int64_t i, First sum) const {
    return x[row * columns + i] - sum / static_cast<float>(columns);
  }
  KERF_DEVICE First first(int64_t row, int64_t i) const { return x[row * columns + i]; }
  KERF_DEVICE static First first_zero() { return 0; }
  KERF_DEVICE static First join_first(First a, First b) { return a + b; }
  KERF_DEVICE Second second(int64_t row, int64_t i, First sum) const {
    const float apart = centred(row, i, sum);
    return apart * apart;
  }
  KERF_DEVICE static Second second_zero() { return 0; }
  KERF_DEVICE static Second join_second(Second a, Second b) { return a + b; }
  KERF_DEVICE void finish(int64_t row, First sum, Second squares) const {
    const float mean = sum / static_cast<float>(columns);
    if (mean_output != nullptr) mean_output[row] = mean;
    if (inverse_output != nullptr) inverse_output[row] = inverse(squares);
    if (reserve == nullptr) return;
    reserve[row] = mean;
    reserve[rows + row] = inverse(squares);
  }
  KERF_DEVICE void each(int64_t row, int64_t i, First sum, Second squares) const {
    y[row * columns + i] =
        centred(row, i, sum) * inverse(squares) * scale[i] + (bias == nullptr ? 0.0F : bias[i]);
  }
};

struct RowSums {
  float scaled;   // of dY * Scale
  float centred;  // of dY * Scale * (X - mean)
};

struct RowGradient {
  using Value = RowSums;
  int64_t rows;
  int64_t columns;
  const float* x;
  const float* scale;
  const float* reserve;
  const float* dy;       // null: 0
  const float* of_mean;  // what flows into outputs 1 and 2; null: 0
  const float* of_inverse;
  float* dx;

  KERF_DEVICE int64_t length(int64_t) const { return columns; }
  KERF_DEVICE Value term(int64_t row, int64_t i) const {
    if (dy == nullptr) return {0, 0};
    const int64_t at = row * columns + i;
    const float scaled = dy[at] * scale[i];
    return {scaled, scaled * (x[at] - reserve[row])};
  }
  KERF_DEVICE static Value zero() { return {0, 0}; }
  KERF_DEVICE static Value join(const Value& a, const Value& b) {
    return {a.scaled + b.scaled, a.centred + b.centred};
  }
  KERF_DEVICE void finish(int64_t, const Value&) const {}
  KERF_DEVICE void each(int64_t row, int64_t i, const Value& sums) const {
    const int64_t at = row * columns + i;
    const float inverse = reserve[rows + row];
    const float cubed = inverse * inverse * inverse;
    const auto count = static_cast<float>(columns);
    const float shift = (of_mean == nullptr ? 0.0F : of_mean[row]) - inverse * sums.scaled;
    const float slope =
        -(of_inverse == nullptr ? 0.0F : of_inverse[row]) * cubed - cubed * sums.centred;
    const float direct = dy == nullptr ? 0.0F : dy[at] * scale[i] * inverse;
    dx[at] = direct + ((x[at] - reserve[row]) * (slope / count) + shift / count);
  }
};

// Row r of the work is a column: the gradients of Scale and B, for W.
struct ColumnSums {
  using Value = RowSums;
  int64_t rows;
  int64_t columns;
  const float* x;
  const float* reserve;
  const float* dy;  // null: 0
  float* handed;
  KERF_DEVICE int64_t length(int64_t) const { return dy == nullptr ? 0 : rows; }
  KERF_DEVICE Value term(int64_t column, int64_t row) const {
    const int64_t at = row * columns + column;
    return {dy[at] * ((x[at] - reserve[row]) * reserve[rows + row]), dy[at]};
  }
  KERF_DEVICE static Value zero() { return {0, 0}; }
  KERF_DEVICE static Value join(const Value& a, const Value& b) {
    return {a.scaled + b.scaled, a.centred + b.centred};
  }
  KERF_DEVICE void finish(int64_t column, const Value& sums) const {
    handed[column] = sums.scaled;
    handed[columns + column] = sums.centred;
  }
};

class LayerNormalizationKernel final : public Kernel {
 public:
  LayerNormalizationKernel(const Queue& queue, float epsilon) : queue_(queue), epsilon_(epsilon) {}

  void forward(const Call& call) override {
    const auto output = [&](size_t i) {
      return call.outputs.size() > i ? call.outputs[i].f32() : nullptr;
    };
    reduce_rows_twice(
        queue_, rows_of(call),
        NormaliseRow{rows_of(call), call.inputs[1].elements(), call.inputs[0].f32(),
                     call.inputs[1].f32(), call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr,
                     epsilon_, output(1), output(2), reinterpret_cast<float*>(call.reserve.data()),
                     call.outputs[0].f32()});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const auto given = [&](size_t i) {
      return call.output_gradients.size() > i ? call.output_gradients[i].f32() : nullptr;
    };
    const int64_t rows = rows_of(call);
    const int64_t columns = call.inputs[1].elements();
    const auto* reserve = reinterpret_cast<const float*>(call.reserve.data());
    for (const GradientTarget& target : targets)
      if (target.input == 0)
        reduce_rows_then_each(queue_, rows,
                              RowGradient{rows, columns, call.inputs[0].f32(), call.inputs[1].f32(),
                                          reserve, given(0), given(1), given(2), target.to.f32()});
    if (!call.handed.empty())
      reduce_rows(queue_, columns,
                  ColumnSums{rows, columns, call.inputs[0].f32(), reserve, given(0),
                             reinterpret_cast<float*>(call.handed.data())});
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const int64_t columns = target.to.elements();
      const auto* from =
          reinterpret_cast<const float*>(call.handed.data()) + (target.input == 1 ? 0 : columns);
      copy_or_add(queue_, from, columns, target.to.f32(), target.accumulate);
    }
  }

 private:
  static int64_t rows_of(const Call& call) {
    const int64_t columns = call.inputs[1].elements();
    return columns == 0 ? 0 : call.inputs[0].elements() / columns;
  }

  const Queue& queue_;
  float epsilon_;
};

}  // namespace

KernelEntries register_layer_normalization() {
  return {
      {.op = "LayerNormalization", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
         return std::make_unique<LayerNormalizationKernel>(queue_of(site),
                                                           site.as<LayerNormalization>().epsilon());
       }}};
}

}  // namespace kerf::ops::cuda
