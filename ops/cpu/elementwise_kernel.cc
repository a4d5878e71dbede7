// The element-wise functions of one input on the CPU: every entry of ops/elementwise.h. Functions
// of many instructions are oneDNN's going forward, which keeps NaN for them, but not for Relu.
#include <map>
#include <optional>

#include "ops/activation_kernel.h"
#include "ops/cpu/dnnl_engine.h"
#include "ops/elementwise.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

using Entries = decltype(kElementwise);

// Entry `kIndex` of the family. Loops may run in place.
template <size_t kIndex>
struct Loops {
  KERF_CLONES static void forward(const float* x, int64_t count, float* y) {
    constexpr auto function = std::get<kIndex>(kElementwise).forward;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = function(x[i]);
  }
  // Where the derivative is 0 so is the gradient, even of an infinite dy.
  KERF_CLONES static void gradient(const float* read, const float* dy, int64_t count, float* dx) {
    constexpr auto derivative = std::get<kIndex>(kElementwise).derivative;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float slope = derivative(read[i]);
      dx[i] = slope == 0 ? 0 : slope * dy[i];
    }
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
  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    constexpr bool kReadsOutput = std::get<kIndex>(kElementwise).reads_output;
    const float* read = (kReadsOutput ? call.outputs[0] : call.inputs[0]).f32();
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      float* dx = target.to.f32();
      simd::parallel_pieces(
          target.to.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
            Loops<kIndex>::gradient(read + begin, dy + begin, end - begin, dx + begin);
          });
    }
  }
};

template <size_t kIndex>
class LoopKernel final : public GradientKernel<kIndex> {
 public:
  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    simd::parallel_pieces(call.outputs[0].elements(), simd::kLeastElements,
                          [&](int64_t begin, int64_t end) {
                            Loops<kIndex>::forward(x + begin, end - begin, y + begin);
                          });
  }
};

template <size_t kIndex>
class LibraryKernel final : public GradientKernel<kIndex> {
 public:
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
std::unique_ptr<Kernel> make_elementwise(const KernelSite&) {
  if constexpr (library_function(std::get<kIndex>(kElementwise).name))
    return std::make_unique<LibraryKernel<kIndex>>();
  else
    return std::make_unique<LoopKernel<kIndex>>();
}

template <size_t... kIndex>
KernelEntries entries(std::index_sequence<kIndex...>) {
  return {{std::get<kIndex>(kElementwise).name, make_elementwise<kIndex>}...};
}

}  // namespace

KernelEntries register_elementwise() {
  return entries(std::make_index_sequence<std::tuple_size_v<Entries>>());
}

}  // namespace kerf::ops::cpu
