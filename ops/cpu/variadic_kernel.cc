// Element-wise functions of any number of inputs on the CPU: the inputs are joined one after the
// other, in place of the output. Types other than float32 forward only.
#include "ops/cpu/number_lanes.h"
#include "ops/cpu/repeated_gradient.h"
#include "ops/kernel.h"
#include "ops/operators/variadic.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// y[i] = joined(y[i], x[i]); kStride: how far apart neighbours of x are.
template <size_t kIndex, int kStride>
KERF_CLONES void join_row(const float* x, int64_t count, float* y) {
  constexpr auto join = std::get<kIndex>(kVariadic).join;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = join(y[i], x[kStride * i]);
}

KERF_CLONES void scale_row(float factor, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] *= factor;
}

// equal[i] += 1 where x equals y.
template <int kStride>
KERF_CLONES void count_equal(const float* x, const float* y, int64_t count, float* equal) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) equal[i] += x[kStride * i] == y[i] ? 1.0F : 0.0F;
}

template <int kStride>
KERF_CLONES void share_equal(const float* x, const float* y, const float* dy, const float* equal,
                             int64_t count, float* shares) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) shares[i] = x[kStride * i] == y[i] ? dy[i] / equal[i] : 0.0F;
}

template <size_t kIndex>
class VariadicKernel final : public PlainKernel {
 public:
  explicit VariadicKernel(const VariadicOperator& op) : op_(op) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.dtype != DType::kFloat32) return forward_any(call);
    simd::parallel_pieces(y.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kInCache)
        join_all(call, at, std::min(end, at + kInCache));
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    if (call.output_gradients[0].dtype != DType::kFloat32)
      throw Error(ErrorCode::kUsage, format("{} of {} has no gradient; only float32 has",
                                            op_.name(), to_string(call.inputs[0].dtype)));
    for (const GradientTarget& target : targets) gradient_of(call, target);
  }

 private:
  static constexpr Sharing kShare = std::get<kIndex>(kVariadic).share;
  static constexpr int64_t kInCache = 4096;  // elements of the output that are joined at once

  Shape aligned(const Call& call, size_t input) const {
    return op_.aligned(static_cast<int>(input), call.inputs[input].shape);
  }
  float part() const { return 1.0F / static_cast<float>(op_.inputs().size()); }

  // Elements [begin, end) of the output.
  void join_all(const Call& call, int64_t begin, int64_t end) const {
    const TensorView& y = call.outputs[0];
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const float* x = call.inputs[i].f32();
      const RepeatedRows<1> rows(y.shape, {aligned(call, i)});
      const auto join = rows.stride(0) == 1 ? join_row<kIndex, 1> : join_row<kIndex, 0>;
      rows.visit(begin, end, [&](int64_t at, const auto& from, int64_t count) {
        float* to = y.f32() + at;
        if (i > 0)
          join(x + from[0], count, to);
        else if (rows.stride(0) == 0)
          std::fill_n(to, count, x[from[0]]);
        else if (to != x + from[0])
          std::copy_n(x + from[0], count, to);
      });
    }
    if (kShare == Sharing::kPart) scale_row(part(), end - begin, y.f32() + begin);
  }

  void gradient_of(const Call& call, const GradientTarget& target) const {
    const TensorView& dy = call.output_gradients[0];
    const Shape own = op_.aligned(target.input, target.to.shape);
    if (kShare == Sharing::kAll && own == dy.shape)
      simd::copy_or_add(dy.f32(), dy.elements(), target.to.f32(), target.accumulate);
    else
      sum_shares(dy.shape, own, target, [&](int64_t at, int64_t count, float* shares) {
        fill_shares(call, target.input, at, count, shares);
      });
  }

  // What flows back into the input from elements [at, at + count) of the output.
  void fill_shares(const Call& call, int input, int64_t at, int64_t count, float* shares) const {
    const float* dy = call.output_gradients[0].f32() + at;
    if (kShare != Sharing::kEqual) {
      std::copy_n(dy, count, shares);
      if (kShare == Sharing::kPart) scale_row(part(), count, shares);
      return;
    }
    float equal[kShared] = {};
    const float* y = call.outputs[0].f32() + at;
    for (size_t i = 0; i < call.inputs.size(); ++i)
      rows_of(call, i).visit(at, at + count, [&](int64_t place, const auto& from, int64_t some) {
        const float* x = call.inputs[i].f32() + from[0];
        const int64_t j = place - at;
        (rows_of(call, i).stride(0) == 1 ? count_equal<1> : count_equal<0>)(x, y + j, some,
                                                                            equal + j);
      });
    const auto own = static_cast<size_t>(input);
    const RepeatedRows<1> rows = rows_of(call, own);
    rows.visit(at, at + count, [&](int64_t place, const auto& from, int64_t some) {
      const float* x = call.inputs[own].f32() + from[0];
      const int64_t j = place - at;
      (rows.stride(0) == 1 ? share_equal<1> : share_equal<0>)(x, y + j, dy + j, equal + j, some,
                                                              shares + j);
    });
  }

  RepeatedRows<1> rows_of(const Call& call, size_t input) const {
    return RepeatedRows<1>(call.output_gradients[0].shape, {aligned(call, input)});
  }

  void forward_any(const Call& call) const {
    const TensorView& y = call.outputs[0];
    with_lane(y.dtype, [&](auto lane) {
      using Lane = decltype(lane);
      constexpr bool kTakes =
          std::is_floating_point_v<Lane> || std::get<kIndex>(kVariadic).types != Types::kFloats;
      if constexpr (kTakes) {
        for (int64_t at = 0; at < y.elements(); at += kLanes)
          join_stretch<Lane>(call, at, std::min(kLanes, y.elements() - at));
      }
    });
  }

  template <class Lane>
  void join_stretch(const Call& call, int64_t at, int64_t count) const {
    constexpr auto join = std::get<kIndex>(kVariadic).join;
    Lane joined[kLanes];
    Lane next[kLanes];
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const RepeatedRows<1> rows(call.outputs[0].shape, {aligned(call, i)});
      rows.visit(at, at + count, [&](int64_t place, const auto& from, int64_t some) {
        load_lanes(call.inputs[i], from[0], rows.stride(0), some,
                   (i == 0 ? joined : next) + (place - at));
      });
      if (i > 0)
        for (int64_t j = 0; j < count; ++j) joined[j] = join(joined[j], next[j]);
    }
    if (kShare == Sharing::kPart)
      for (int64_t j = 0; j < count; ++j)
        joined[j] = joined[j] / static_cast<Lane>(call.inputs.size());
    store_lanes(joined, count, call.outputs[0], at);
  }

  const VariadicOperator& op_;
};

template <size_t kIndex>
std::unique_ptr<Kernel> make_variadic(const KernelSite& site) {
  return std::make_unique<VariadicKernel<kIndex>>(site.as<VariadicOperator>());
}

template <size_t... kIndex>
KernelEntries variadic_entries(std::index_sequence<kIndex...>) {
  return {{std::get<kIndex>(kVariadic).name, make_variadic<kIndex>}...};
}

}  // namespace

KernelEntries register_variadic() {
  return variadic_entries(std::make_index_sequence<kVariadics>());
}

}  // namespace kerf::ops::cpu
