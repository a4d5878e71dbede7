// Softmax, its logarithm and Hardmax on the CPU: the first forward by oneDNN, whose logarithms are
// 3e-6 wrong. Gradients are dx = y * (dy - sum(dy * y)), and dx = dy - exp(y) * sum(dy) of the
// logarithm.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "ops/activation_kernel.h"
#include "ops/cpu/description_cache.h"
#include "ops/cpu/dnnl_engine.h"
#include "ops/folded.h"
#include "ops/operators/softmax.h"
#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"
#include "ops/simd/vector_math.h"

namespace kerf::ops::cpu {
namespace {

using dnnl::memory;

// Of one line that lies dense.
KERF_CLONES void line_gradient(const float* y, const float* dy, int64_t count, float* dx) {
  const float sum = simd::sum_in_lanes(count, [=](int64_t j) { return dy[j] * y[j]; });
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) dx[j] = y[j] * (dy[j] - sum);
}

// Of one line whose elements are `stride` apart.
void line_gradient_apart(const float* y, const float* dy, int64_t count, int64_t stride,
                         float* dx) {
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += dy[j * stride] * y[j * stride];
  for (int64_t j = 0; j < count; ++j) dx[j * stride] = y[j * stride] * (dy[j * stride] - sum);
}

KERF_CLONES float sum_of_exponentials(const float* x, int64_t count, float most) {
  return simd::sum_in_lanes(count, [=](int64_t j) { return std::exp(x[j] - most); });
}

// The logarithms of one line.
void log_line(const float* x, int64_t count, int64_t stride, float* y) {
  float most = x[0];
  for (int64_t j = 1; j < count; ++j) most = std::max(most, x[j * stride]);
  float sum = 0;
  if (stride == 1)
    sum = sum_of_exponentials(x, count, most);
  else
    for (int64_t j = 0; j < count; ++j) sum += std::exp(x[j * stride] - most);
  // One after the other: beside a large number the logarithm of the sum would be lost.
  const double largest = static_cast<double>(most);
  const double logarithm = std::log(static_cast<double>(sum));
  for (int64_t j = 0; j < count; ++j)
    y[j * stride] = static_cast<float>((static_cast<double>(x[j * stride]) - largest) - logarithm);
}

// The gradient of the logarithms.
KERF_CLONES void log_line_gradient(const float* y, const float* dy, int64_t count, float* dx) {
  const float sum = simd::sum_in_lanes(count, [=](int64_t j) { return dy[j]; });
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) dx[j] = dy[j] - std::exp(y[j]) * sum;
}

void log_line_gradient_apart(const float* y, const float* dy, int64_t count, int64_t stride,
                             float* dx) {
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += dy[j * stride];
  for (int64_t j = 0; j < count; ++j)
    dx[j * stride] = dy[j * stride] - std::exp(y[j * stride]) * sum;
}

// Calls work(index of the line's first element) for every line along an axis.
template <class Work>
void for_lines(const Folded& f, const Work& work) {
  if (f.length == 0) return;
  simd::parallel_pieces(f.outer * f.inner, 1 + simd::kLeastElements / f.length,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t line = begin; line < end; ++line)
                            work(line / f.inner * f.length * f.inner + line % f.inner);
                        });
}

KERF_CLONES float largest_of_line(const float* x, int64_t count) {
  return simd::largest_in_lanes(x, count);
}

// Of `count` lines side by side, whose elements are `stride` apart.
KERF_CLONES void largest_of_lines(const float* x, int64_t length, int64_t stride, int64_t count,
                                  float* most) {
  std::copy_n(x, count, most);
  for (int64_t j = 1; j < length; ++j)
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) most[i] = simd::larger(most[i], x[j * stride + i]);
}

// Lines with a NaN or of which the largest is infinite have no share that is a number; oneDNN takes
// a NaN for the least of all.
void spoil_lines(const Folded& f, const float* x, float* y) {
  constexpr int64_t kBeside = 64;
  const int64_t blocks = (f.inner + kBeside - 1) / kBeside;
  const int64_t elements = f.length * std::min(kBeside, f.inner);
  simd::parallel_pieces(f.outer * blocks, 1 + simd::kLeastElements / elements,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t block = begin; block < end; ++block) {
                            const int64_t first = block % blocks * kBeside;
                            const int64_t at = block / blocks * f.length * f.inner + first;
                            const int64_t count = std::min(kBeside, f.inner - first);
                            float most[kBeside];
                            if (f.inner == 1)
                              most[0] = largest_of_line(x + at, f.length);
                            else
                              largest_of_lines(x + at, f.length, f.inner, count, most);
                            for (int64_t i = 0; i < count; ++i)
                              for (int64_t j = 0; j < f.length && !std::isfinite(most[i]); ++j)
                                y[at + i + j * f.inner] = std::numeric_limits<float>::quiet_NaN();
                          }
                        });
}

class SoftmaxKernel final : public ActivationKernel {
 public:
  explicit SoftmaxKernel(const Softmax& op)
      : ActivationKernel(op), axis_(op.axis()), logarithm_(op.kind() == SoftmaxKind::kLogSoftmax) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    if (logarithm_) {
      const Folded f = fold(y.shape, axis_);
      const float* x = call.inputs[0].f32();
      for_lines(f, [&](int64_t at) { log_line(x + at, f.length, f.inner, y.f32() + at); });
      return;
    }
    guard("Softmax", [&] {
      const Folded f = fold(y.shape, axis_);
      Workspace workspace(call.workspace);
      const std::array<int64_t, 3> key{f.outer, f.length, f.inner};
      auto at = plans_.find(key);
      if (at == plans_.end()) at = plans_.emplace(key, make_plan(f, workspace.bytes_left())).first;
      Plan& plan = at->second;
      point(plan.from, call.inputs[0].data);
      point(plan.to, y.data);
      point(plan.scratch, workspace.take<std::byte>(plan.scratch_bytes));
      engine_.run(plan.primitive, {{DNNL_ARG_SRC, plan.from},
                                   {DNNL_ARG_DST, plan.to},
                                   {DNNL_ARG_SCRATCHPAD, plan.scratch}});
      spoil_lines(f, call.inputs[0].f32(), y.f32());
    });
  }

  static size_t workspace(const Folded& f, int threads) {
    static DescriptionCache<4> known;
    return known.bytes({f.outer, f.length, f.inner, threads}, [&] {
      return guard("Softmax", [&] {
        return with_threads(threads, [&] {
          return piece_bytes<std::byte>(scratch_bytes(describe(f, kAnyGrant, DnnlEngine())));
        });
      });
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* y = call.outputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      if (target.to.elements() == 0) continue;
      float* dx = target.to.f32();
      const Folded f = fold(target.to.shape, axis_);
      const auto dense = logarithm_ ? log_line_gradient : line_gradient;
      const auto apart = logarithm_ ? log_line_gradient_apart : line_gradient_apart;
      for_lines(f, [&](int64_t at) {
        if (f.inner == 1)
          dense(y + at, dy + at, f.length, dx + at);
        else
          apart(y + at, dy + at, f.length, f.inner, dx + at);
      });
    }
  }

 private:
  using Forward = dnnl::softmax_v2_forward;
  struct Plan {
    Forward primitive;
    memory from, to, scratch;
    int64_t scratch_bytes = 0;
  };

  static memory::desc lines(const Folded& f) {
    return {{f.outer, f.length, f.inner}, memory::data_type::f32, memory::format_tag::abc};
  }
  static int64_t scratch_bytes(const Forward::primitive_desc& description) {
    return static_cast<int64_t>(description.scratchpad_desc().get_size());
  }

  static Forward::primitive_desc describe(const Folded& f, size_t granted,
                                          const DnnlEngine& engine) {
    const Forward::desc softmax(dnnl::prop_kind::forward_training,
                                dnnl::algorithm::softmax_accurate, lines(f), lines(f), 1);
    Forward::primitive_desc made(softmax, scratchpad_by_user(), engine.engine());
    const auto bytes = [&] { return piece_bytes<std::byte>(scratch_bytes(made)); };
    if (!take_granted(made, granted, bytes)) throw_nothing_granted(granted);
    return made;
  }

  Plan make_plan(const Folded& f, size_t granted) const {
    const Forward::primitive_desc made = describe(f, granted, engine_);
    return {Forward(made), engine_.room_for(lines(f)), engine_.room_for(lines(f)),
            engine_.room_for(made.scratchpad_desc()), scratch_bytes(made)};
  }

  int axis_;
  bool logarithm_;
  DnnlEngine engine_;
  std::map<std::array<int64_t, 3>, Plan> plans_;
};

class HardmaxKernel final : public ActivationKernel {
 public:
  explicit HardmaxKernel(const Softmax& op) : ActivationKernel(op), axis_(op.axis()) {}

  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    const Folded f = fold(call.outputs[0].shape, axis_);
    for_lines(f, [&](int64_t at) {
      int64_t largest = 0;
      for (int64_t j = 1; j < f.length; ++j) {
        const float most = x[at + largest * f.inner];
        const float here = x[at + j * f.inner];
        if (here > most || (here != here && most == most)) largest = j;  // NaN wins
      }
      for (int64_t j = 0; j < f.length; ++j) y[at + j * f.inner] = j == largest ? 1.0F : 0.0F;
    });
  }

  void input_gradient(const Call&, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
  }

 private:
  int axis_;
};

std::unique_ptr<Kernel> make_softmax(const KernelSite& site) {
  const auto& op = site.as<Softmax>();
  if (op.kind() == SoftmaxKind::kHardmax) return std::make_unique<HardmaxKernel>(op);
  return std::make_unique<SoftmaxKernel>(op);
}

size_t softmax_workspace(const BoundOperator& bound, const LocalSpecs& local, int threads) {
  const Shape& y = local.outputs[0].shape;
  if (y.elements() == 0) return 0;
  return SoftmaxKernel::workspace(fold(y, static_cast<const Softmax&>(bound).axis()), threads);
}

}  // namespace

KernelEntries register_softmax() {
  return {{"Softmax", make_softmax, softmax_workspace},
          {"LogSoftmax", make_softmax},
          {"Hardmax", make_softmax}};
}

}  // namespace kerf::ops::cpu
