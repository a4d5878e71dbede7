// Element-wise functions of two inputs on the CPU: every entry of ops/binary.h. Where all is
// float32 a row at a time; other types a stretch at a time, as the numbers that they are computed
// in, forward only.
#include <set>

#include "ops/cpu/binary_rows.h"
#include "ops/cpu/number_lanes.h"
#include "ops/cpu/repeated_rows.h"
#include "ops/kernel.h"
#include "ops/operators/binary.h"

namespace kerf::ops::cpu {
namespace {

template <size_t kIndex>
class SmoothKernel final : public PlainKernel {
 public:
  explicit SmoothKernel(const BinaryOperator& op) : op_(op) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    const float* a = call.inputs[0].f32();
    const float* b = call.inputs[1].f32();
    const RepeatedRows<2> rows(y.shape, {aligned(call, 0), aligned(call, 1)});
    const auto row = rows.stride(0) == 0   ? forward_row<kIndex, 0, 1>
                     : rows.stride(1) == 0 ? forward_row<kIndex, 1, 0>
                                           : forward_row<kIndex, 1, 1>;
    simd::parallel_pieces(y.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
      rows.visit(begin, end, [&](int64_t at, const auto& from, int64_t count) {
        row(a + from[0], b + from[1], count, y.f32() + at);
      });
    });
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

  template <int kOf>
  void gradient_of(const Call& call, const GradientTarget& target) const {
    constexpr unsigned kReads = [] {
      if constexpr (kOf == 0)
        return std::get<kIndex>(kBinary).slope_a.reads;
      else
        return std::get<kIndex>(kBinary).slope_b.reads;
    }();
    constexpr bool kReadsOther = (kReads & (kOf == 0 ? kReadsB : kReadsA)) != 0;
    const Shape& whole = call.output_gradients[0].shape;
    const Shape own = op_.aligned(kOf, target.to.shape);
    const RepeatedRows<2> rows(whole, {own, kReadsOther ? aligned(call, 1 - kOf) : whole});
    const auto row_of = [&](int64_t at, const auto& from, int64_t count) {
      const auto shifted = [](const float* x, int64_t by) { return x == nullptr ? x : x + by; };
      return RowOfTwo{call.output_gradients[0].f32() + at,
                      shifted(call.inputs[0].f32(), from[kOf == 0 ? 0 : 1]),
                      shifted(call.inputs[1].f32(), from[kOf == 0 ? 1 : 0]),
                      shifted(call.outputs[0].f32(), at), count};
    };
    float* to = target.to.f32();
    if (own == whole) {
      const bool one = rows.stride(1) == 0;
      const auto row = target.accumulate ? (one ? slope_row<kIndex, kOf, 0, Into::kAdd>
                                                : slope_row<kIndex, kOf, 1, Into::kAdd>)
                                         : (one ? slope_row<kIndex, kOf, 0, Into::kSet>
                                                : slope_row<kIndex, kOf, 1, Into::kSet>);
      simd::parallel_pieces(
          whole.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
            rows.visit(begin, end, [&](int64_t at, const auto& from, int64_t count) {
              row(row_of(at, from, count), to + at);
            });
          });
      return;
    }
    // In one thread and ascending order, so that the sum never depends on the number of threads.
    if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
    const bool one = rows.stride(1) == 0;
    const auto row =
        one ? slope_row<kIndex, kOf, 0, Into::kAdd> : slope_row<kIndex, kOf, 1, Into::kAdd>;
    rows.visit(0, whole.elements(), [&](int64_t at, const auto& from, int64_t count) {
      if (rows.stride(0) == 1)
        row(row_of(at, from, count), to + from[0]);
      else
        to[from[0]] += slope_sum<kIndex, kOf>(row_of(at, from, count));
    });
  }

  const BinaryOperator& op_;
};

template <size_t kIndex>
class AnyTypeKernel final : public PlainKernel {
 public:
  explicit AnyTypeKernel(const BinaryOperator& op) : op_(op) {}

  void forward(const Call& call) override {
    const DType base = call.inputs[0].dtype;
    // An integer to a power that is none is computed as what it would be without rounding.
    const bool widened = !is_floating(base) && is_floating(call.inputs[1].dtype);
    with_lane(widened ? DType::kFloat64 : base, [&](auto lane) {
      using Lane = decltype(lane);
      constexpr Types kTypes = std::get<kIndex>(kBinary).types;
      constexpr bool kTakes = std::is_floating_point_v<Lane> ? takes(kTypes, DType::kFloat64)
                                                             : kTypes != Types::kFloats;
      if constexpr (kTakes) run<Lane>(call);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    throw Error(ErrorCode::kUsage,
                format("{} of {} has no gradient of its input {}; only float32 has", op_.name(),
                       to_string(call.inputs[0].dtype), targets.empty() ? 0 : targets[0].input));
  }

 private:
  template <class Lane>
  void run(const Call& call) const {
    constexpr auto function = std::get<kIndex>(kBinary).forward;
    using Result = std::conditional_t<kGivesBool<kIndex>, int64_t, Lane>;
    const TensorView& y = call.outputs[0];
    const auto aligned = [&](int i) {
      return op_.aligned(i, call.inputs[static_cast<size_t>(i)].shape);
    };
    const RepeatedRows<2> rows(y.shape, {aligned(0), aligned(1)});
    simd::parallel_pieces(y.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
      rows.visit(begin, end, [&](int64_t at, const auto& from, int64_t count) {
        for (int64_t done = 0; done < count; done += kLanes) {
          const int64_t some = std::min(kLanes, count - done);
          Lane a[kLanes];
          Lane b[kLanes];
          Result to[kLanes];
          for (size_t i = 0; i < 2; ++i)
            load_lanes(call.inputs[i], from[i] + done * rows.stride(i), rows.stride(i), some,
                       i == 0 ? a : b);
          for (int64_t i = 0; i < some; ++i) to[i] = static_cast<Result>(function(a[i], b[i]));
          store_lanes(to, some, y, at + done);
        }
      });
    });
  }

  const BinaryOperator& op_;
};

template <size_t kIndex>
std::unique_ptr<Kernel> make_entry(const BinaryOperator& op) {
  if constexpr (kIsSmooth<kIndex>) {
    if (op.is_trained()) return std::make_unique<SmoothKernel<kIndex>>(op);
  }
  return std::make_unique<AnyTypeKernel<kIndex>>(op);
}

using MakeEntry = std::unique_ptr<Kernel> (*)(const BinaryOperator&);

template <size_t... kIndex>
std::array<MakeEntry, kBinaries> makers(std::index_sequence<kIndex...>) {
  return {make_entry<kIndex>...};
}

std::unique_ptr<Kernel> make_binary(const KernelSite& site) {
  const auto& op = site.as<BinaryOperator>();
  return makers(std::make_index_sequence<kBinaries>())[op.entry()](op);
}

template <size_t... kIndex>
std::set<std::string> names(std::index_sequence<kIndex...>) {
  return {std::get<kIndex>(kBinary).name...};
}

}  // namespace

KernelEntries register_binary() {
  KernelEntries entries;
  for (const std::string& name : names(std::make_index_sequence<kBinaries>()))
    entries.push_back({name, make_binary});
  return entries;
}

}  // namespace kerf::ops::cpu
