// TopK on the CPU: of every row the places, partly sorted.
#include <algorithm>
#include <numeric>

#include "ops/cpu/element.h"
#include "ops/folded.h"
#include "ops/kernel.h"
#include "ops/operators/top_k.h"
#include "ops/simd/simd.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {
namespace {

class TopKKernel final : public PlainKernel {
 public:
  explicit TopKKernel(const TopK& op) : op_(op) {}

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    if (x.elements() == 0) return;
    const Folded folded = fold(x.shape, op_.axis());
    const int64_t rows = folded.outer * folded.inner;
    const size_t scratch = piece_bytes<int64_t>(folded.length);
    const int64_t most = static_cast<int64_t>(call.workspace.size() / scratch);
    KERF_CHECK(most > 0, "{} bytes of workspace for a TopK of {}", call.workspace.size(),
               folded.length);
    const int64_t least =
        std::max(1 + simd::kLeastElements / folded.length, (rows + most - 1) / most);
    with_number(x.dtype, [&](auto zero) {
      using T = decltype(zero);
      simd::parallel_numbered_pieces(rows, least, [&](int64_t piece, int64_t begin, int64_t end) {
        std::byte* places = call.workspace.data() + static_cast<size_t>(piece) * scratch;
        for (int64_t i = begin; i < end; ++i)
          pick<T>(call, folded, i, reinterpret_cast<int64_t*>(places));
      });
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* dy = call.output_gradients[0].f32();
    const int64_t* picked = call.outputs[1].i64();
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
      if (dy == nullptr || target.to.elements() == 0) continue;
      const Folded folded = fold(target.to.shape, op_.axis());
      const int64_t k = call.outputs[1].shape[op_.axis()];
      for (int64_t i = 0; i < folded.outer * k * folded.inner; ++i) {
        const int64_t outer = i / folded.inner / k;
        to[(outer * folded.length + picked[i]) * folded.inner + i % folded.inner] += dy[i];
      }
    }
  }

 private:
  // Row `i` of the axis, of outer * inner; `places` has room for one of its indices each.
  template <class T>
  void pick(const Call& call, const Folded& folded, int64_t i, int64_t* places) const {
    const int64_t k = call.outputs[0].shape[op_.axis()];
    const int64_t outer = i / folded.inner;
    const int64_t inner = i % folded.inner;
    const T* x = call.inputs[0].as<T>() + outer * folded.length * folded.inner + inner;
    std::iota(places, places + folded.length, int64_t{0});
    std::partial_sort(places, places + k, places + folded.length, [&](int64_t a, int64_t b) {
      const T left = x[a * folded.inner];
      const T right = x[b * folded.inner];
      const bool no_left = left != left;  // NaN is greater than all numbers
      const bool no_right = right != right;
      if (no_left || no_right) {
        if (no_left != no_right) return op_.largest() ? no_left : no_right;
        return a < b;
      }
      if (left != right) return op_.largest() ? left > right : left < right;
      return a < b;
    });
    for (int64_t j = 0; j < k; ++j) {
      const int64_t to = (outer * k + j) * folded.inner + inner;
      call.outputs[0].as<T>()[to] = x[places[j] * folded.inner];
      call.outputs[1].i64()[to] = places[j];
    }
  }

  const TopK& op_;
};

// A row of places for every thread.
size_t top_k_workspace(const BoundOperator& bound, const LocalSpecs& local, int threads) {
  const int64_t length = local.inputs[0].shape[static_cast<const TopK&>(bound).axis()];
  return static_cast<size_t>(threads) * piece_bytes<int64_t>(length);
}

}  // namespace

KernelEntries register_top_k() {
  return {{.op = "TopK",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<TopKKernel>(site.as<TopK>());
           },
           .workspace = top_k_workspace}};
}

}  // namespace kerf::ops::cpu
