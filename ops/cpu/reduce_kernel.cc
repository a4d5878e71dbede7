// Reductions on the CPU: one walk over the input, each result put together in the order of its
// terms, whatever the number of threads.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "ops/cpu/element.h"
#include "ops/cpu/reduce_rules.h"
#include "ops/cpu/walk.h"
#include "ops/kernel.h"
#include "ops/operators/reduce.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {
namespace {

// Of numbers T into results of type To, to which each number is turned first.
template <class T, class To, class Rule>
struct ReductionRows {
  static To term(T x) { return Rule::term(static_cast<To>(x)); }
  // A row into one result, in lanes, so that every instruction set joins in the same order.
  KERF_CLONES static To along(const T* x, int64_t count) {
    constexpr int64_t kLanes = 16;
    To lanes[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = Rule::template zero<To>();
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
      for (int64_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] = Rule::join(lanes[lane], term(x[i + lane]));
    for (int64_t lane = 0; i < count; ++i, ++lane)
      lanes[lane] = Rule::join(lanes[lane], term(x[i]));
    for (int64_t width = kLanes / 2; width > 0; width /= 2)
      for (int64_t lane = 0; lane < width; ++lane)
        lanes[lane] = Rule::join(lanes[lane], lanes[lane + width]);
    return lanes[0];
  }
  // A row into as many results.
  KERF_CLONES static void beside(const T* x, int64_t count, To* y) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = Rule::join(y[i], term(x[i]));
  }
};

// y = all that goes into each, of `results` results.
template <class Rule, class T, class To>
void reduce(const Walk& walk, const T* x, int64_t results, To* y) {
  using Rows = ReductionRows<T, To, Rule>;
  std::fill_n(y, results, Rule::template zero<To>());
  if (walk.empty()) return;
  for_rows_in_order(walk, [&](int64_t from, int64_t to, const WalkAxis& row) {
    if (row.to == 0)
      y[to] = Rule::join(y[to], Rows::along(x + from, row.extent));
    else
      Rows::beside(x + from, row.extent, y + to);
  });
}

template <class T>
KERF_CLONES T exponentials(const T* x, T most, int64_t count) {
  T sum{};
  for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - most);
  return sum;
}

// The logarithm of the sum of exponentials, of which none is greater than 1; `most` is scratch.
template <class T>
void log_sum_exp(const Walk& walk, const T* x, int64_t results, T* most, T* y) {
  reduce<MaxRule>(walk, x, results, most);
  std::fill_n(y, results, T{});
  const auto finite = [](T m) { return std::isfinite(m) ? m : T{}; };
  if (!walk.empty())
    for_rows_in_order(walk, [&](int64_t from, int64_t to, const WalkAxis& row) {
      if (row.to == 0)
        y[to] += exponentials(x + from, finite(most[to]), row.extent);
      else
        for (int64_t i = 0; i < row.extent; ++i)
          y[to + i] += std::exp(x[from + i] - finite(most[to + i]));
    });
  for (int64_t i = 0; i < results; ++i) y[i] = finite(most[i]) + std::log(y[i]);
}

// How many of each result's numbers are equal to it.
void count_equal(const Walk& walk, const float* x, const float* y, int64_t results, float* equal) {
  std::fill_n(equal, results, 0.0F);
  if (walk.empty()) return;
  for_rows_in_order(walk, [&](int64_t from, int64_t to, const WalkAxis& row) {
    for (int64_t i = 0; i < row.extent; ++i)
      if (x[from + i] == y[to + i * row.to]) equal[to + i * row.to] += 1;
  });
}

// What a slope reads at a result's place, and the factor that all have.
template <class First>
struct SlopeNumbers {
  const float* x = nullptr;
  const float* dy = nullptr;
  const First* first = nullptr;
  const float* second = nullptr;
  float factor = 1;
};

template <class Slope, class First>
struct SlopeRows {
  KERF_CLONES static void along(const float* x, int64_t count, float dy, First first, float second,
                                bool accumulate, float* dx) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float term = dy * Slope::of(Slope::kReads ? x[i] : 0, first, second);
      dx[i] = accumulate ? dx[i] + term : term;
    }
  }
  KERF_CLONES static void beside(const float* x, int64_t count, const float* dy, float factor,
                                 const First* first, const float* second, bool accumulate,
                                 float* dx) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float term = factor * dy[i] * Slope::of(Slope::kReads ? x[i] : 0, first[i], second[i]);
      dx[i] = accumulate ? dx[i] + term : term;
    }
  }
};

template <class Slope, class First>
void spread(const Walk& walk, const SlopeNumbers<First>& n, bool accumulate, float* dx) {
  using Rows = SlopeRows<Slope, First>;
  if (walk.empty()) return;
  // Every x has a row of its own: threads take rows.
  const Walk rows = walk.count() == 0 ? walk : walk.without(walk.count() - 1);
  const WalkAxis row = walk.count() == 0 ? WalkAxis{1, 1, 1} : walk[walk.count() - 1];
  simd::parallel_pieces(rows.indices(), 1 + simd::kLeastElements / row.extent,
                        [&](int64_t begin, int64_t end) {
                          WalkPlace place(rows, begin);
                          for (int64_t i = begin; i < end; ++i, place.next()) {
                            const int64_t to = place.to();
                            const float* x = Slope::kReads ? n.x + place.from() : nullptr;
                            if (row.to == 0)
                              Rows::along(x, row.extent, n.factor * n.dy[to], n.first[to],
                                          n.second[to], accumulate, dx + place.from());
                            else
                              Rows::beside(x, row.extent, n.dy + to, n.factor, n.first + to,
                                           n.second + to, accumulate, dx + place.from());
                          }
                        });
}

class ReduceKernel final : public PlainKernel {
 public:
  explicit ReduceKernel(const Reduce& op) : op_(op) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.dtype == DType::kBool)
      return op_.kind() == Reduction::kMax ? by<MaxRule, uint8_t>(call)
                                           : by<AllRule, uint8_t>(call);
    with_number(y.dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>)
        analytic<T>(call);
      else
        sums<T>(call);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const Walk walk = walk_over(target.to.shape);
      if (!walk.empty()) gradient(call, walk, target);
    }
  }

 private:
  // From the input to the results.
  Walk walk_over(const Shape& x) const {
    const auto from = strides_of(x);
    std::array<int64_t, Shape::kMaxRank> to{};
    int64_t step = 1;
    for (int i = x.rank(); i-- > 0;) {
      if (op_.reduced()[static_cast<size_t>(i)]) continue;
      to[static_cast<size_t>(i)] = step;
      step *= x[i];
    }
    Walk walk;
    for (int i = 0; i < x.rank(); ++i)
      walk.add({x[i], from[static_cast<size_t>(i)], to[static_cast<size_t>(i)]});
    return walk;
  }

  template <class Rule, class T>
  void by(const Call& call) const {
    reduce<Rule>(walk_over(call.inputs[0].shape), call.inputs[0].as<T>(),
                 call.outputs[0].elements(), call.outputs[0].as<T>());
  }

  template <class T>
  void extremes(const Call& call) const {
    return op_.kind() == Reduction::kMax ? by<MaxRule, T>(call) : by<MinRule, T>(call);
  }

  // What numbers of every type have.
  template <class T>
  void sums(const Call& call) const {
    switch (op_.kind()) {
      case Reduction::kMax:
      case Reduction::kMin:
        return extremes<T>(call);
      case Reduction::kProd:
        return by<ProductRule, T>(call);
      case Reduction::kL1:
        return by<AbsoluteRule, T>(call);
      case Reduction::kL2:
      case Reduction::kSumSquare:
        return by<SquareRule, T>(call);
      case Reduction::kMean:
        return means<T>(call);
      default:
        by<SumRule, T>(call);
    }
  }

  // Of integers by way of 64 bits, in which few sums wrap around and the number of terms fits.
  template <class T>
  void means(const Call& call) const {
    const int64_t terms = std::max<int64_t>(op_.terms(), 1);
    if constexpr (std::is_floating_point_v<T>) {
      by<SumRule, T>(call);
      for_results(call, [&](T sum) { return sum / static_cast<T>(terms); });
    } else {
      using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      const int64_t results = call.outputs[0].elements();
      auto* wide = Workspace(call.workspace).take<Wide>(results);
      reduce<SumRule>(walk_over(call.inputs[0].shape), call.inputs[0].as<T>(), results, wide);
      for (int64_t i = 0; i < results; ++i)
        call.outputs[0].as<T>()[i] = static_cast<T>(wide[i] / static_cast<Wide>(terms));
    }
  }

  // Roots and logarithms.
  template <class T>
  void analytic(const Call& call) const {
    if (op_.kind() == Reduction::kLogSumExp) {
      const int64_t results = call.outputs[0].elements();
      T* most = Workspace(call.workspace).take<T>(results);
      return log_sum_exp(walk_over(call.inputs[0].shape), call.inputs[0].as<T>(), results, most,
                         call.outputs[0].as<T>());
    }
    sums<T>(call);
    if (op_.kind() == Reduction::kL2) for_results(call, [](T sum) { return std::sqrt(sum); });
    if (op_.kind() == Reduction::kLogSum) for_results(call, [](T sum) { return std::log(sum); });
  }

  template <class Change>
  static void for_results(const Call& call, const Change& change) {
    using T = decltype(change({}));
    T* y = call.outputs[0].as<T>();
    for (int64_t i = 0; i < call.outputs[0].elements(); ++i) y[i] = change(y[i]);
  }

  void gradient(const Call& call, const Walk& walk, const GradientTarget& target) const {
    SlopeNumbers<float> n;
    n.x = call.inputs[0].f32();
    n.dy = n.first = n.second = call.output_gradients[0].f32();
    const float* y = call.outputs[0].f32();
    float* dx = target.to.f32();
    const int64_t results = call.output_gradients[0].elements();
    Workspace workspace(call.workspace);
    switch (op_.kind()) {
      case Reduction::kMean:
        n.factor = 1 / static_cast<float>(op_.terms());
        return spread<OneSlope>(walk, n, target.accumulate, dx);
      case Reduction::kSum:
        return spread<OneSlope>(walk, n, target.accumulate, dx);
      case Reduction::kL1:
        return spread<SignSlope>(walk, n, target.accumulate, dx);
      case Reduction::kSumSquare:
        return spread<DoubleSlope>(walk, n, target.accumulate, dx);
      case Reduction::kL2:
        n.first = y;
        return spread<RootSlope>(walk, n, target.accumulate, dx);
      case Reduction::kLogSum:
        n.first = y;
        return spread<LogSlope>(walk, n, target.accumulate, dx);
      case Reduction::kLogSumExp:
        n.first = y;
        return spread<LogExpSlope>(walk, n, target.accumulate, dx);
      case Reduction::kMax:
      case Reduction::kMin: {
        auto* equal = workspace.take<float>(results);
        count_equal(walk, n.x, y, results, equal);
        n.first = y;
        n.second = equal;
        return spread<ShareSlope>(walk, n, target.accumulate, dx);
      }
      case Reduction::kProd: {
        auto* product = workspace.take<double>(results);
        auto* zeros = workspace.take<float>(results);
        reduce<NonZeroProductRule>(walk, n.x, results, product);
        reduce<ZeroCountRule>(walk, n.x, results, zeros);
        const SlopeNumbers<double> others{n.x, n.dy, product, zeros};
        return spread<ProductSlope>(walk, others, target.accumulate, dx);
      }
    }
  }

  const Reduce& op_;
};

std::unique_ptr<Kernel> make_reduce(const KernelSite& site) {
  return std::make_unique<ReduceKernel>(site.as<Reduce>());
}

size_t reduce_workspace(const BoundOperator& bound, const LocalSpecs& local, int) {
  const auto& op = static_cast<const Reduce&>(bound);
  const int64_t results = local.outputs[0].shape.elements();
  const bool wide = op.kind() == Reduction::kMean && !is_floating(local.outputs[0].dtype);
  const size_t forward =
      wide || op.kind() == Reduction::kLogSumExp ? piece_bytes<int64_t>(results) : 0;
  const bool extreme = op.kind() == Reduction::kMax || op.kind() == Reduction::kMin;
  size_t back = extreme ? piece_bytes<float>(results) : 0;
  if (op.kind() == Reduction::kProd)
    back = piece_bytes<double>(results) + piece_bytes<float>(results);
  return op.inputs()[0].wants_gradient ? std::max(forward, back) : forward;
}

}  // namespace

KernelEntries register_reduce() {
  KernelEntries entries;
  for (const char* name :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
    entries.push_back({name, make_reduce, reduce_workspace});
  return entries;
}

}  // namespace kerf::ops::cpu
