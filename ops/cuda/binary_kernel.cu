// The element-wise functions of two inputs on a GPU: every smooth entry of ops/binary.h, in
// float32.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/broadcast.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/operators/binary.h"

namespace kerf::ops::cuda {
namespace {

// An input of the shape of the output, or repeated over it.
template <bool kRepeated>
struct BinaryInput {
  const float* x;
  AxisSteps axes;
  KERF_DEVICE float at(int64_t i) const { return x[kRepeated ? axes.operand_at(i) : i]; }
};

template <size_t kIndex, bool kA, bool kB>
struct BinaryForward {
  BinaryInput<kA> a;
  BinaryInput<kB> b;
  float* y;
  KERF_DEVICE void operator()(int64_t i) const {
    constexpr auto function = std::get<kIndex>(kBinary).forward;
    y[i] = function(a.at(i), b.at(i));
  }
};

template <size_t kIndex, int kOf>
constexpr auto binary_slope() {
  if constexpr (kOf == 0)
    return std::get<kIndex>(kBinary).slope_a;
  else
    return std::get<kIndex>(kBinary).slope_b;
}

// What flows back into input kOf at an element of the output.
template <size_t kIndex, int kOf>
struct BinarySlope {
  const float* dy;
  BinaryInput<true> a;
  BinaryInput<true> b;
  const float* y;
  KERF_DEVICE float at(int64_t i) const {
    constexpr auto slope = binary_slope<kIndex, kOf>();
    return slope.of(dy[i], (slope.reads & kReadsA) != 0 ? a.at(i) : 0.0F,
                    (slope.reads & kReadsB) != 0 ? b.at(i) : 0.0F,
                    (slope.reads & kReadsY) != 0 ? y[i] : 0.0F);
  }
};

template <size_t kIndex, int kOf>
struct EachSlope {
  BinarySlope<kIndex, kOf> slope;
  float* to;
  bool accumulate;
  KERF_DEVICE void operator()(int64_t i) const { put(to + i, accumulate, slope.at(i)); }
};

// Row r is an element of the repeated input.
template <size_t kIndex, int kOf>
struct SumSlopes : Adding<double> {
  BinarySlope<kIndex, kOf> slope;
  AxisSteps own;
  AxisSteps repeated;
  int64_t repetitions;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t) const { return repetitions; }
  KERF_DEVICE double term(int64_t row, int64_t i) const {
    return static_cast<double>(slope.at(own.whole_at(row) + repeated.whole_at(i)));
  }
  KERF_DEVICE void finish(int64_t row, double sum) const {
    put(to + row, accumulate, static_cast<float>(sum));
  }
};

template <size_t kIndex>
class BinaryKernel final : public PlainKernel {
 public:
  BinaryKernel(const BinaryOperator& op, const Queue& queue) : op_(op), queue_(queue) {}

  void forward(const Call& call) override {
    const bool a = aligned(call, 0) == call.outputs[0].shape;
    const bool b = aligned(call, 1) == call.outputs[0].shape;
    if (a && b)
      forward_as<false, false>(call);
    else if (a)
      forward_as<false, true>(call);
    else if (b)
      forward_as<true, false>(call);
    else
      forward_as<true, true>(call);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      if (target.input == 0)
        gradient_of<0>(call, target);
      else
        gradient_of<1>(call, target);
    }
  }

 private:
  Shape aligned(const Call& call, int input) const {
    return op_.aligned(input, call.inputs[static_cast<size_t>(input)].shape);
  }

  template <bool kRepeated>
  BinaryInput<kRepeated> input(const Call& call, int index, const Shape& whole) const {
    return {call.inputs[static_cast<size_t>(index)].f32(),
            Broadcast(aligned(call, index), whole).all};
  }

  template <bool kA, bool kB>
  void forward_as(const Call& call) const {
    const TensorView& y = call.outputs[0];
    for_each(queue_, y.elements(),
             BinaryForward<kIndex, kA, kB>{input<kA>(call, 0, y.shape), input<kB>(call, 1, y.shape),
                                           y.f32()});
  }

  template <int kOf>
  void gradient_of(const Call& call, const GradientTarget& target) const {
    const TensorView& dy = call.output_gradients[0];
    const Shape own = op_.aligned(kOf, target.to.shape);
    const BinarySlope<kIndex, kOf> slope{dy.f32(), input<true>(call, 0, dy.shape),
                                         input<true>(call, 1, dy.shape), call.outputs[0].f32()};
    if (own == dy.shape) {
      for_each(queue_, dy.elements(),
               EachSlope<kIndex, kOf>{slope, target.to.f32(), target.accumulate});
      return;
    }
    const Broadcast broadcast(own, dy.shape);
    reduce_rows(queue_, target.to.elements(),
                SumSlopes<kIndex, kOf>{{},
                                       slope,
                                       broadcast.own,
                                       broadcast.repeated,
                                       broadcast.repeated.elements(),
                                       target.to.f32(),
                                       target.accumulate});
  }

  const BinaryOperator& op_;
  const Queue& queue_;
};

template <size_t kIndex>
std::unique_ptr<Kernel> make_binary(const KernelSite& site) {
  const auto& op = site.as<BinaryOperator>();
  if (!op.is_trained())
    throw Error(
        ErrorCode::kUnavailable,
        format("operator {} of {} has no kernel for device {}; run it on device cpu", op.name(),
               to_string(op.inputs()[0].spec.dtype), site.bench.device().name()));
  return std::make_unique<BinaryKernel<kIndex>>(op, queue_of(site));
}

template <size_t kIndex>
void add_binary_entry(KernelEntries& entries) {
  if constexpr (kIsSmooth<kIndex>)
    entries.push_back({std::get<kIndex>(kBinary).name, make_binary<kIndex>});
}

template <size_t... kIndex>
KernelEntries binary_entries(std::index_sequence<kIndex...>) {
  KernelEntries entries;
  (add_binary_entry<kIndex>(entries), ...);
  return entries;
}

}  // namespace

KernelEntries register_binary() { return binary_entries(std::make_index_sequence<kBinaries>()); }

}  // namespace kerf::ops::cuda
