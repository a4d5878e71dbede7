// RowSum, RowSquareSum and RowNormalization on a GPU, sums of a row by a block. With r the inverse
// deviation, c = X - mean, g = dY * Scale and n the length of a whole row, of which this is a share,
//   dX = g * r,   dsquares = -r^3 / 2n * sum of g * c,   dsums = -r / n * sum of g,
//   dScale = sum over rows of dY * c * r,   dB = sum over rows of dY.
#include <cmath>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/operators/row_normalization.h"

namespace kerf::ops::cuda {
namespace {

// A share of rows, and what is known of the whole ones.
struct RowShare {
  int64_t columns;  // of the share
  float whole;      // columns of a whole row
  const float* x;
  const float* sums;  // null: the mean is 0
  KERF_DEVICE float mean(int64_t row) const { return sums == nullptr ? 0.0F : sums[row] / whole; }
  KERF_DEVICE float centred(int64_t row, int64_t i) const {
    return x[row * columns + i] - mean(row);
  }
};

struct SumRow : Adding<float> {
  RowShare rows;
  bool squares;
  float* to;
  KERF_DEVICE int64_t length(int64_t) const { return rows.columns; }
  KERF_DEVICE float term(int64_t row, int64_t i) const {
    const float number = rows.centred(row, i);
    return squares ? number * number : number;
  }
  KERF_DEVICE void finish(int64_t row, float sum) const { to[row] = sum; }
};

// Through the mean: the sum over this share of X - mean, which vanishes over the whole only.
struct SquaresThroughMean : Adding<float> {
  RowShare rows;
  const float* dy;
  float* to;
  KERF_DEVICE int64_t length(int64_t) const { return rows.columns; }
  KERF_DEVICE float term(int64_t row, int64_t i) const { return rows.centred(row, i); }
  KERF_DEVICE void finish(int64_t row, float sum) const {
    to[row] = -2 * dy[row] / rows.whole * sum;
  }
};

struct SumsGradient {
  RowShare rows;
  bool squares;
  const float* dy;
  float* to;
  KERF_DEVICE void operator()(int64_t at) const {
    const int64_t row = at / rows.columns;
    to[at] = squares ? 2 * dy[row] * rows.centred(row, at % rows.columns) : dy[row];
  }
};

struct Deviation {
  RowShare rows;
  const float* squares;
  float epsilon;
  KERF_DEVICE float inverse(int64_t row) const {
    return 1.0F / std::sqrt(squares[row] / rows.whole + epsilon);
  }
};

struct NormaliseShare {
  Deviation by;
  const float* scale;
  const float* bias;  // null: 0
  float* y;
  KERF_DEVICE void operator()(int64_t at) const {
    const int64_t row = at / by.rows.columns;
    const int64_t i = at % by.rows.columns;
    y[at] =
        by.rows.centred(row, i) * by.inverse(row) * scale[i] + (bias == nullptr ? 0.0F : bias[i]);
  }
};

struct ShareGradient {
  Deviation by;
  const float* scale;
  const float* dy;
  float* dx;
  KERF_DEVICE void operator()(int64_t at) const {
    dx[at] = dy[at] * scale[at % by.rows.columns] * by.inverse(at / by.rows.columns);
  }
};

// Of a row's sums, or its squares.
struct StatisticGradient : Adding<float> {
  Deviation by;
  bool squares;
  const float* scale;
  const float* dy;
  float* to;
  KERF_DEVICE int64_t length(int64_t) const { return by.rows.columns; }
  KERF_DEVICE float term(int64_t row, int64_t i) const {
    const float scaled = dy[row * by.rows.columns + i] * scale[i];
    return squares ? scaled * by.rows.centred(row, i) : scaled;
  }
  KERF_DEVICE void finish(int64_t row, float sum) const {
    const float r = by.inverse(row);
    to[row] = squares ? -r * r * r / (2 * by.rows.whole) * sum : -r / by.rows.whole * sum;
  }
};

// Row r of the work is a column: the gradients of Scale and B, for W.
struct ColumnProducts : Adding<float> {
  Deviation by;
  int64_t count;  // of rows
  bool centred;
  const float* dy;
  float* to;
  KERF_DEVICE int64_t length(int64_t) const { return count; }
  KERF_DEVICE float term(int64_t column, int64_t row) const {
    const float given = dy[row * by.rows.columns + column];
    return centred ? given * (by.rows.centred(row, column) * by.inverse(row)) : given;
  }
  KERF_DEVICE void finish(int64_t column, float sum) const { to[column] = sum; }
};

class RowSumsKernel final : public Kernel {
 public:
  RowSumsKernel(const Queue& queue, const RowSums& op) : queue_(queue), op_(op) {}

  void forward(const Call& call) override {
    const int64_t rows = call.outputs[0].elements();
    if (rows == 0) return;
    SumRow body;
    body.rows = share(call, call.inputs[0].elements() / rows);
    body.squares = op_.squares();
    body.to = call.outputs[0].f32();
    reduce_rows(queue_, rows, body);
  }

  // Of activations only, so that nothing is added to.
  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const int64_t rows = call.output_gradients[0].elements();
    if (rows == 0) return;
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      if (target.input == 0) {
        const int64_t elements = target.to.elements();
        for_each(queue_, elements,
                 SumsGradient{share(call, elements / rows), op_.squares(), dy, target.to.f32()});
        continue;
      }
      SquaresThroughMean body;
      body.rows = share(call, call.inputs[0].elements() / rows);
      body.dy = dy;
      body.to = target.to.f32();
      reduce_rows(queue_, rows, body);
    }
  }

  void weight_gradient(const Call&, std::span<const GradientTarget>) override {}

 private:
  RowShare share(const Call& call, int64_t columns) const {
    return {columns, static_cast<float>(op_.length()), call.inputs[0].f32(),
            op_.centred() ? call.inputs[1].f32() : nullptr};
  }

  const Queue& queue_;
  const RowSums& op_;
};

class RowNormalizationKernel final : public Kernel {
 public:
  using Op = RowNormalization;
  RowNormalizationKernel(const Queue& queue, const Op& op) : queue_(queue), op_(op) {}

  void forward(const Call& call) override {
    for_each(queue_, call.outputs[0].elements(),
             NormaliseShare{deviation(call), call.inputs[Op::kScale].f32(),
                            op_.has(Op::kB) ? call.inputs[Op::kB].f32() : nullptr,
                            call.outputs[0].f32()});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* scale = call.inputs[Op::kScale].f32();
    const float* dy = call.output_gradients[0].f32();
    const int64_t columns = call.inputs[Op::kScale].elements();
    const int64_t rows = columns == 0 ? 0 : call.inputs[Op::kX].elements() / columns;
    for (const GradientTarget& target : targets) {
      if (target.input == Op::kX) {
        for_each(queue_, target.to.elements(),
                 ShareGradient{deviation(call), scale, dy, target.to.f32()});
        continue;
      }
      StatisticGradient body;
      body.by = deviation(call);
      body.squares = target.input == Op::kSquares;
      body.scale = scale;
      body.dy = dy;
      body.to = target.to.f32();
      reduce_rows(queue_, rows, body);
    }
    if (call.handed.empty()) return;
    for (const bool centred : {true, false}) {
      ColumnProducts body;
      body.by = deviation(call);
      body.count = rows;
      body.centred = centred;
      body.dy = dy;
      body.to = reinterpret_cast<float*>(call.handed.data()) + (centred ? 0 : columns);
      reduce_rows(queue_, columns, body);
    }
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const int64_t columns = target.to.elements();
      const auto* from = reinterpret_cast<const float*>(call.handed.data()) +
                         (target.input == Op::kScale ? 0 : columns);
      copy_or_add(queue_, from, columns, target.to.f32(), target.accumulate);
    }
  }

 private:
  Deviation deviation(const Call& call) const {
    return {
        {call.inputs[Op::kScale].elements(), static_cast<float>(op_.length()),
         call.inputs[Op::kX].f32(), op_.has(Op::kSums) ? call.inputs[Op::kSums].f32() : nullptr},
        call.inputs[Op::kSquares].f32(),
        op_.epsilon()};
  }

  const Queue& queue_;
  const Op& op_;
};

std::unique_ptr<Kernel> make_row_sums(const KernelSite& site) {
  return std::make_unique<RowSumsKernel>(queue_of(site), site.as<RowSums>());
}

}  // namespace

KernelEntries register_row_normalization() {
  return {{.op = "RowSum", .make = make_row_sums},
          {.op = "RowSquareSum", .make = make_row_sums},
          {.op = "RowNormalization", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<RowNormalizationKernel>(queue_of(site),
                                                             site.as<RowNormalization>());
           }}};
}

}  // namespace kerf::ops::cuda
