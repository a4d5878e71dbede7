// The element-wise functions of one input on the CPU: every entry of ops/elementwise.h. Sigmoid and
// Tanh are oneDNN's going forward, which keeps NaN for them. Where X is not float32, a stretch at a
// time as the numbers that it is computed in, forward only.
#include <map>
#include <optional>
#include <set>

#include "ops/activation_kernel.h"
#include "ops/cpu/dnnl_engine.h"
#include "ops/cpu/number_lanes.h"
#include "ops/operators/elementwise.h"
#include "ops/simd/simd.h"
#include "ops/simd/vector_math.h"

namespace kerf::ops::cpu {
namespace {

using Numbers = Parameters<float>;

template <class T>
Parameters<T> parameters_as(const Parameters<double>& given) {
  Parameters<T> parameters;
  for (size_t i = 0; i < kElementParameters; ++i) parameters.of[i] = converted<T>(given[i]);
  return parameters;
}

// Entry `kIndex` of the family. Loops may run in place.
template <size_t kIndex>
struct Loops {
  // What may call the mathematical library is computed in whole blocks (simd/vector_math.h). The
  // rest is a loop, too: so the compiler knows that it is not empty, and peels no element off.
  static constexpr bool kInBlocks = std::get<kIndex>(kElementwise).flops > 1;
  static constexpr int64_t kBlock = simd::kBlock;

  KERF_CLONES static void forward(const float* x, int64_t count, Numbers parameters, float* y) {
    constexpr auto function = std::get<kIndex>(kElementwise).forward;
    if constexpr (kInBlocks) {
      int64_t begin = 0;
      for (; begin + kBlock <= count; begin += kBlock)
#pragma omp simd
        for (int64_t i = begin; i < begin + kBlock; ++i) y[i] = applied(function, x[i], parameters);
      for (; begin < count; begin += kBlock) {
        const int64_t some = std::min(kBlock, count - begin);
        float from[kBlock] = {};
        float to[kBlock];
        std::copy_n(x + begin, some, from);
#pragma omp simd
        for (int64_t i = 0; i < kBlock; ++i) to[i] = applied(function, from[i], parameters);
        std::copy_n(to, some, y + begin);
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) y[i] = applied(function, x[i], parameters);
    }
  }

  KERF_CLONES static void gradient(const float* read, const float* dy, int64_t count,
                                   Numbers parameters, float* dx) {
    if constexpr (kInBlocks) {
      int64_t begin = 0;
      for (; begin + kBlock <= count; begin += kBlock)
#pragma omp simd
        for (int64_t i = begin; i < begin + kBlock; ++i)
          dx[i] = flowing(slope(read[i], parameters), dy[i]);
      for (; begin < count; begin += kBlock) {
        const int64_t some = std::min(kBlock, count - begin);
        float from[kBlock] = {};
        float slopes[kBlock];
        std::copy_n(read + begin, some, from);
#pragma omp simd
        for (int64_t i = 0; i < kBlock; ++i) slopes[i] = slope(from[i], parameters);
#pragma omp simd
        for (int64_t i = 0; i < some; ++i) dx[begin + i] = flowing(slopes[i], dy[begin + i]);
      }
      // NOLINTNEXTLINE(bugprone-branch-clone): loops under omp simd count as equal ones
    } else if constexpr (std::get<kIndex>(kElementwise).of == DerivativeOf::kNothing) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) dx[i] = flowing(slope(0.0F, parameters), dy[i]);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) dx[i] = flowing(slope(read[i], parameters), dy[i]);
    }
  }

 private:
  [[gnu::always_inline]] static inline float slope(float read, const Numbers& parameters) {
    return applied(std::get<kIndex>(kElementwise).derivative, read, parameters);
  }
  // Where the derivative is 0 so is the gradient, even of an infinite dy.
  [[gnu::always_inline]] static inline float flowing(float slope, float dy) {
    return slope == 0 ? 0 : slope * dy;
  }
};

// oneDNN's function, where it is the one to take.
constexpr std::optional<dnnl::algorithm> library_function(std::string_view op) {
  if (op == "Sigmoid") return dnnl::algorithm::eltwise_logistic;
  if (op == "Tanh") return dnnl::algorithm::eltwise_tanh;
  return std::nullopt;
}

template <size_t kIndex>
class GradientKernel : public ActivationKernel {
 public:
  explicit GradientKernel(const ElementwiseOperator& op)
      : ActivationKernel(op), parameters_(parameters_as<float>(op.parameters())) {}

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    constexpr DerivativeOf kOf = std::get<kIndex>(kElementwise).of;
    const float* dy = call.output_gradients[0].f32();
    const float* read = kOf == DerivativeOf::kOutput  ? call.outputs[0].f32()
                        : kOf == DerivativeOf::kInput ? call.inputs[0].f32()
                                                      : dy;
    for (const GradientTarget& target : targets) {
      float* dx = target.to.f32();
      simd::parallel_pieces(
          target.to.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
            Loops<kIndex>::gradient(read + begin, dy + begin, end - begin, parameters_, dx + begin);
          });
    }
  }

 protected:
  Numbers parameters_;
};

template <size_t kIndex>
class LoopKernel final : public GradientKernel<kIndex> {
 public:
  using GradientKernel<kIndex>::GradientKernel;

  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    simd::parallel_pieces(
        call.outputs[0].elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
          Loops<kIndex>::forward(x + begin, end - begin, this->parameters_, y + begin);
        });
  }
};

template <size_t kIndex>
class LibraryKernel final : public GradientKernel<kIndex> {
 public:
  using GradientKernel<kIndex>::GradientKernel;

  void forward(const Call& call) override {
    const int64_t elements = call.outputs[0].elements();
    if (elements == 0) return;
    guard(kName, [&] {
      auto at = plans_.find(elements);
      if (at == plans_.end()) at = plans_.emplace(elements, make_plan(elements)).first;
      Plan& plan = at->second;
      point(plan.from, call.inputs[0].data);
      point(plan.to, call.outputs[0].data);
      engine_.run(plan.primitive, {{DNNL_ARG_SRC, plan.from}, {DNNL_ARG_DST, plan.to}});
    });
  }

 private:
  using Function = dnnl::eltwise_forward;
  struct Plan {
    Function primitive;
    dnnl::memory from, to;
  };

  Plan make_plan(int64_t elements) const {
    using dnnl::memory;
    const memory::desc desc({elements}, memory::data_type::f32, memory::format_tag::a);
    const Function::primitive_desc description(
        {dnnl::prop_kind::forward_training, *library_function(kName), desc, 0.0F},
        scratchpad_by_user(), engine_.engine());
    KERF_CHECK(description.scratchpad_desc().get_size() == 0, "{} wants scratch", kName);
    return {Function(description), engine_.room_for(desc), engine_.room_for(desc)};
  }

  static constexpr const char* kName = std::get<kIndex>(kElementwise).name;
  DnnlEngine engine_;
  std::map<int64_t, Plan> plans_;
};

template <size_t kIndex>
class TypedKernel final : public ActivationKernel {
 public:
  explicit TypedKernel(const ElementwiseOperator& op) : ActivationKernel(op), op_(op) {}

  void forward(const Call& call) override {
    with_lane(call.inputs[0].dtype, [&](auto lane) {
      using Lane = decltype(lane);
      constexpr Types kTypes = std::get<kIndex>(kElementwise).types;
      constexpr bool kTakes = std::is_floating_point_v<Lane> ? takes(kTypes, DType::kFloat64)
                                                             : kTypes != Types::kFloats;
      if constexpr (kTakes) run<Lane>(call);
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget>) override {
    throw Error(ErrorCode::kUsage, format("{} of {} has no gradient; only float32 has", op_.name(),
                                          to_string(call.inputs[0].dtype)));
  }

 private:
  template <class Lane>
  void run(const Call& call) const {
    constexpr auto function = std::get<kIndex>(kElementwise).forward;
    using Result = std::conditional_t<kAsks<kIndex>, int64_t, Lane>;
    const Parameters<Lane> parameters = parameters_as<Lane>(op_.parameters());
    const TensorView& y = call.outputs[0];
    simd::parallel_pieces(y.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kLanes) {
        const int64_t some = std::min(kLanes, end - at);
        Lane from[kLanes];
        Result to[kLanes];
        load_lanes(call.inputs[0], at, 1, some, from);
        for (int64_t i = 0; i < some; ++i)
          to[i] = static_cast<Result>(applied(function, from[i], parameters));
        store_lanes(to, some, y, at);
      }
    });
  }

  const ElementwiseOperator& op_;
};

template <size_t kIndex>
std::unique_ptr<Kernel> make_element(const ElementwiseOperator& op) {
  if constexpr (kIsDerived<kIndex>) {
    if (op.is_trained()) {
      if constexpr (library_function(std::get<kIndex>(kElementwise).name))
        return std::make_unique<LibraryKernel<kIndex>>(op);
      else
        return std::make_unique<LoopKernel<kIndex>>(op);
    }
  }
  return std::make_unique<TypedKernel<kIndex>>(op);
}

using MakeElement = std::unique_ptr<Kernel> (*)(const ElementwiseOperator&);

template <size_t... kIndex>
std::array<MakeElement, kElementwises> element_makers(std::index_sequence<kIndex...>) {
  return {make_element<kIndex>...};
}

std::unique_ptr<Kernel> make_elementwise(const KernelSite& site) {
  const auto& op = site.as<ElementwiseOperator>();
  return element_makers(std::make_index_sequence<kElementwises>())[op.entry()](op);
}

template <size_t... kIndex>
std::set<std::string> element_names(std::index_sequence<kIndex...>) {
  return {std::get<kIndex>(kElementwise).name...};
}

}  // namespace

KernelEntries register_elementwise() {
  KernelEntries entries;
  for (const std::string& name : element_names(std::make_index_sequence<kElementwises>()))
    entries.push_back({name, make_elementwise});
  return entries;
}

}  // namespace kerf::ops::cpu
