// RowSum, RowSquareSum and RowNormalization on the CPU. With r the inverse deviation, c = X - mean,
// g = dY * Scale and n the length of a whole row, of which this is a share,
//   dX = g * r,   dsquares = -r^3 / 2n * sum of g * c,   dsums = -r / n * sum of g,
//   dScale = sum over rows of dY * c * r,   dB = sum over rows of dY.
#include <cmath>
#include <cstring>

#include "ops/cpu/channel_rows.h"
#include "ops/kernel.h"
#include "ops/operators/row_normalization.h"
#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

KERF_CLONES void normalise_row(const float* x, float mean, float inverse, const float* scale,
                               const float* bias, int64_t count, float* y) {
  if (bias == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse * scale[i];
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
}

KERF_CLONES void scale_gradient_row(const float* dy, const float* scale, float inverse,
                                    int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * scale[i] * inverse;
}

KERF_CLONES float sum_of_scaled(const float* dy, const float* scale, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return dy[i] * scale[i]; });
}

KERF_CLONES float sum_of_scaled_centred(const float* dy, const float* scale, const float* x,
                                        float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return dy[i] * scale[i] * (x[i] - mean); });
}

KERF_CLONES float sum_of_centred(const float* x, float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return x[i] - mean; });
}

KERF_CLONES void add_products_row(const float* dy, const float* x, float mean, float inverse,
                                  int64_t count, float* products, float* sums) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    products[i] += dy[i] * ((x[i] - mean) * inverse);
    sums[i] += dy[i];
  }
}

// Calls work(row) for all rows of `length` numbers, on as many threads as are worth it.
template <class Work>
void for_rows(int64_t rows, int64_t length, const Work& work) {
  simd::parallel_pieces(rows, 1 + simd::kLeastElements / std::max<int64_t>(length, 1),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) work(row);
                        });
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
          to[row] = -r / whole_ * sum_of_scaled(dy, scale, length);
        else
          to[row] = -r * r * r / (2 * whole_) *
                    sum_of_scaled_centred(dy, scale, x, mean(call, row), length);
      });
    }
    if (!call.handed.empty()) sum_rows(call, reinterpret_cast<float*>(call.handed.data()));
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const int64_t length = target.to.elements();
      const auto* from = reinterpret_cast<const float*>(call.handed.data()) +
                         (target.input == Op::kScale ? 0 : length);
      simd::copy_or_add(from, length, target.to.f32(), target.accumulate);
    }
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

  // Threads take columns; each adds the rows in ascending order.
  void sum_rows(const Call& call, float* products) const {
    const int64_t length = call.inputs[Op::kScale].elements();
    const int64_t rows = rows_of(call);
    std::memset(products, 0, static_cast<size_t>(2 * length) * sizeof(float));
    if (rows == 0) return;
    const float* dy = call.output_gradients[0].f32();
    const float* x = call.inputs[Op::kX].f32();
    const int64_t least = std::max<int64_t>(16, simd::kLeastElements / rows);
    simd::parallel_pieces(length, least, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < rows; ++row)
        add_products_row(dy + row * length + begin, x + row * length + begin, mean(call, row),
                         inverse(call, row), end - begin, products + begin,
                         products + length + begin);
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
