// RowSum, RowSquareSum and RowNormalization on the CPU. With r the inverse deviation, c = X - mean,
// g = dY * Scale and n the length of a whole row, of which this is a share,
//   dX = g * r,   dsquares = -r^3 / 2n * sum of g * c,   dsums = -r / n * sum of g,
//   dScale = sum over rows of dY * c * r,   dB = sum over rows of dY.
#include <cmath>

#include "ops/cpu/channel_rows.h"
#include "ops/cpu/normalized_rows.h"
#include "ops/kernel.h"
#include "ops/operators/row_normalization.h"
#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

KERF_CLONES void scale_gradient_row(const float* dy, const float* scale, float inverse,
                                    int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * scale[i] * inverse;
}

KERF_CLONES float sum_of_centred(const float* x, float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return x[i] - mean; });
}

class RowSumsKernel final : public Kernel {
 public:
  explicit RowSumsKernel(const RowSums& op)
      : squares_(op.squares()), centred_(op.centred()), whole_(static_cast<float>(op.length())) {}

  void forward(const Call& call) override {
    const int64_t rows = call.outputs[0].elements();
    const int64_t length = rows == 0 ? 0 : call.inputs[0].elements() / rows;
    for_rows(rows, length, [&](int64_t row) {
      const float* x = call.inputs[0].f32() + row * length;
      call.outputs[0].f32()[row] =
          squares_ ? sum_row_centred_squares(x, mean(call, row), length) : simd::sum_of(x, length);
    });
  }

  // Of activations only, so that nothing is added to.
  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* dy = call.output_gradients[0].f32();
    const int64_t rows = call.output_gradients[0].elements();
    for (const GradientTarget& target : targets) {
      const int64_t here = target.input == 0 ? target.to.elements() : call.inputs[0].elements();
      const int64_t length = rows == 0 ? 0 : here / rows;
      for_rows(rows, length, [&](int64_t row) {
        float* to = target.to.f32();
        const float* x = squares_ ? call.inputs[0].f32() + row * length : nullptr;
        if (target.input == 1)
          to[row] = -2 * dy[row] / whole_ * sum_of_centred(x, mean(call, row), length);
        else if (squares_)
          map_row(x, mean(call, row), 2 * dy[row], 0, length, to + row * length);
        else
          std::fill_n(to + row * length, length, dy[row]);
      });
    }
  }

  void weight_gradient(const Call&, std::span<const GradientTarget>) override {}

 private:
  float mean(const Call& call, int64_t row) const {
    return centred_ ? call.inputs[1].f32()[row] / whole_ : 0.0F;
  }

  bool squares_;
  bool centred_;
  float whole_;  // numbers of a row, with those elsewhere
};

class RowNormalizationKernel final : public Kernel {
 public:
  using Op = RowNormalization;

  explicit RowNormalizationKernel(const Op& op)
      : centred_(op.has(Op::kSums)),
        biased_(op.has(Op::kB)),
        epsilon_(op.epsilon()),
        whole_(static_cast<float>(op.length())) {}

  void forward(const Call& call) override {
    const int64_t length = call.inputs[Op::kScale].elements();
    const float* bias = biased_ ? call.inputs[Op::kB].f32() : nullptr;
    for_rows(rows_of(call), length, [&](int64_t row) {
      normalise_row(call.inputs[Op::kX].f32() + row * length, mean(call, row), inverse(call, row),
                    call.inputs[Op::kScale].f32(), bias, length,
                    call.outputs[0].f32() + row * length);
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const int64_t length = call.inputs[Op::kScale].elements();
    const float* scale = call.inputs[Op::kScale].f32();
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      for_rows(rows_of(call), length, [&](int64_t row) {
        const float* dy = call.output_gradients[0].f32() + row * length;
        const float* x = call.inputs[Op::kX].f32() + row * length;
        const float r = inverse(call, row);
        if (target.input == Op::kX)
          scale_gradient_row(dy, scale, r, length, to + row * length);
        else if (target.input == Op::kSums)
          to[row] = -r / whole_ * sum_scaled(dy, scale, length);
        else
          to[row] =
              -r * r * r / (2 * whole_) * sum_scaled_centred(dy, scale, x, mean(call, row), length);
      });
    }
    if (!call.handed.empty()) sum_rows(call, reinterpret_cast<float*>(call.handed.data()));
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    take_handed_sums(call, Op::kScale, targets);
  }

 private:
  static int64_t rows_of(const Call& call) {
    const int64_t length = call.inputs[Op::kScale].elements();
    return length == 0 ? 0 : call.inputs[Op::kX].elements() / length;
  }
  float mean(const Call& call, int64_t row) const {
    return centred_ ? call.inputs[Op::kSums].f32()[row] / whole_ : 0.0F;
  }
  float inverse(const Call& call, int64_t row) const {
    return 1.0F / std::sqrt(call.inputs[Op::kSquares].f32()[row] / whole_ + epsilon_);
  }

  void sum_rows(const Call& call, float* products) const {
    const int64_t length = call.inputs[Op::kScale].elements();
    std::fill_n(products, 2 * length, 0.0F);
    const float* dy = call.output_gradients[0].f32();
    const float* x = call.inputs[Op::kX].f32();
    for_columns(rows_of(call), length, [&](int64_t row, int64_t begin, int64_t end) {
      const int64_t from = row * length + begin;
      add_normalised_products(dy + from, x + from, mean(call, row), inverse(call, row), end - begin,
                              products + begin, products + length + begin);
    });
  }

  bool centred_;
  bool biased_;
  float epsilon_;
  float whole_;  // numbers of a row, with those elsewhere
};

std::unique_ptr<Kernel> make_row_sums(const KernelSite& site) {
  return std::make_unique<RowSumsKernel>(site.as<RowSums>());
}

}  // namespace

KernelEntries register_row_normalization() {
  return {{.op = "RowSum", .make = make_row_sums},
          {.op = "RowSquareSum", .make = make_row_sums},
          {.op = "RowNormalization", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<RowNormalizationKernel>(site.as<RowNormalization>());
           }}};
}

}  // namespace kerf::ops::cpu
