// Where on the CPU: bits are moved, whatever their type; the gradients are of float32.
#include "ops/cpu/repeated_gradient.h"
#include "ops/element_size.h"
#include "ops/operators/where.h"

namespace kerf::ops::cpu {
namespace {

// kX, kY: how far apart the values of neighbours are.
template <class T, int kX, int kY>
KERF_CLONES void pick_row(const uint8_t* holds, const T* x, const T* y, int64_t count, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = holds[i] != 0 ? x[kX * i] : y[kY * i];
}

template <class T>
void pick(const uint8_t* holds, int64_t apart, const T* x, int64_t x_apart, const T* y,
          int64_t y_apart, int64_t count, T* to) {
  if (apart == 0) {
    const T* from = *holds != 0 ? x : y;
    if ((*holds != 0 ? x_apart : y_apart) == 0)
      std::fill_n(to, count, *from);
    else
      std::copy_n(from, count, to);
    return;
  }
  const auto row = x_apart == 0 ? (y_apart == 0 ? pick_row<T, 0, 0> : pick_row<T, 0, 1>)
                                : (y_apart == 0 ? pick_row<T, 1, 0> : pick_row<T, 1, 1>);
  row(holds, x, y, count, to);
}

class WhereKernel final : public PlainKernel {
 public:
  explicit WhereKernel(const Where& op) : op_(op) {}

  void forward(const Call& call) override {
    with_element(call.outputs[0].dtype, [&](auto zero) { forward_as<decltype(zero)>(call); });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    if (dy.dtype != DType::kFloat32)
      throw Error(ErrorCode::kUsage,
                  format("Where of {} has no gradient; only float32 has", to_string(dy.dtype)));
    const RepeatedRows<1> rows(dy.shape, {op_.aligned(0, call.inputs[0].shape)});
    const auto* holds = call.inputs[0].as<uint8_t>();
    for (const GradientTarget& target : targets) {
      KERF_CHECK(target.input > 0, "a condition has no gradient");
      const bool wanted = target.input == 1;
      sum_shares(dy.shape, op_.aligned(target.input, target.to.shape), target,
                 [&](int64_t at, int64_t count, float* shares) {
                   rows.visit(at, at + count, [&](int64_t place, const auto& from, int64_t some) {
                     for (int64_t i = 0; i < some; ++i) {
                       const bool held = holds[from[0] + i * rows.stride(0)] != 0;
                       shares[place - at + i] = held == wanted ? dy.f32()[place + i] : 0.0F;
                     }
                   });
                 });
    }
  }

 private:
  template <class T>
  void forward_as(const Call& call) const {
    const TensorView& to = call.outputs[0];
    const auto aligned = [&](int i) {
      return op_.aligned(i, call.inputs[static_cast<size_t>(i)].shape);
    };
    const RepeatedRows<3> rows(to.shape, {aligned(0), aligned(1), aligned(2)});
    const auto* holds = call.inputs[0].as<uint8_t>();
    const T* x = call.inputs[1].as<T>();
    const T* y = call.inputs[2].as<T>();
    simd::parallel_pieces(to.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
      rows.visit(begin, end, [&](int64_t at, const auto& from, int64_t count) {
        pick(holds + from[0], rows.stride(0), x + from[1], rows.stride(1), y + from[2],
             rows.stride(2), count, to.as<T>() + at);
      });
    });
  }

  const Where& op_;
};

std::unique_ptr<Kernel> make_where(const KernelSite& site) {
  return std::make_unique<WhereKernel>(site.as<Where>());
}

}  // namespace

KernelEntries register_where() { return {{"Where", make_where}}; }

}  // namespace kerf::ops::cpu
