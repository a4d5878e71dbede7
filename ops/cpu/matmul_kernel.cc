// MatMul on the CPU: as few oneDNN products as the stacks allow.
//
// Stack axes that both operands have make a batch of products, as long as they are the last ones;
// or those that only A has are more rows of one product. Outside of these the products are done one
// after another, in the order of the stacks; so gradients of a repeated operand are summed in that
// order.
#include <array>

#include "ops/cpu/dnnl_matmul.h"
#include "ops/kernel.h"

namespace kerf::ops::cpu {
namespace {

constexpr int kMost = Shape::kMaxRank;

// The extent of an operand along stack axis `stack` of `stacks`: 1 where it is repeated.
int64_t stack_extent(const Shape& operand, int stacks, int stack) {
  const int axis = stack - stacks + operand.rank() - 2;
  return axis < 0 ? 1 : operand[axis];
}

// How far apart, in matrices, an operand's stacks lie; 0 along axes that it repeats.
std::array<int64_t, kMost> strides_of(const Shape& operand, int stacks) {
  std::array<int64_t, kMost> strides{};
  int64_t next = 1;
  for (int i = stacks - 1; i >= 0; --i) {
    const int64_t extent = stack_extent(operand, stacks, i);
    strides[static_cast<size_t>(i)] = extent == 1 ? 0 : next;
    next *= extent;
  }
  return strides;
}

// The products of one call: `outer` stack axes one by one, each of `batch` products of m x k by k x
// n.
struct Products {
  Products(const Shape& a, const Shape& b, const Shape& y)
      : outer(y.rank() - 2),
        m(a[a.rank() - 2]),
        n(b[b.rank() - 1]),
        k(a[a.rank() - 1]),
        a_matrix(m * k),
        b_matrix(k * n),
        y_matrix(m * n),
        a_strides(strides_of(a, outer)),
        b_strides(strides_of(b, outer)) {
    const int stacks = outer;
    for (int i = 0; i < stacks; ++i) extents[static_cast<size_t>(i)] = y[i];
    const auto last_has = [&](const Shape& operand) {
      return stack_extent(operand, stacks, outer - 1) == y[outer - 1];
    };
    while (outer > 0 && last_has(a) && stack_extent(b, stacks, outer - 1) == 1) m *= y[--outer];
    if (m != a[a.rank() - 2]) return;
    while (outer > 0 && last_has(a) && last_has(b)) batch *= y[--outer];
  }

  // Calls visit(offsets of A, B and Y in elements, whether A's and whether B's matrices are seen
  // for the first time).
  template <class Visit>
  void for_each(const Visit& visit) const {
    std::array<int64_t, kMost> at{};
    int64_t inner = 1;  // matrices of Y within one visit
    for (int i = outer; i < kMost && extents[static_cast<size_t>(i)] >= 0; ++i)
      inner *= extents[static_cast<size_t>(i)];
    for (int64_t y = 0;; y += inner * y_matrix) {
      int64_t a = 0;
      int64_t b = 0;
      bool first_of_a = true;
      bool first_of_b = true;
      for (size_t i = 0; i < static_cast<size_t>(outer); ++i) {
        a += at[i] * a_strides[i] * a_matrix;
        b += at[i] * b_strides[i] * b_matrix;
        first_of_a = first_of_a && (a_strides[i] != 0 || at[i] == 0);
        first_of_b = first_of_b && (b_strides[i] != 0 || at[i] == 0);
      }
      visit(a, b, y, first_of_a, first_of_b);
      int axis = outer - 1;
      for (; axis >= 0; --axis) {
        int64_t& index = at[static_cast<size_t>(axis)];
        if (++index < extents[static_cast<size_t>(axis)]) break;
        index = 0;
      }
      if (axis < 0) return;
    }
  }

  int outer;
  int64_t batch = 1;
  int64_t m, n, k;
  int64_t a_matrix, b_matrix, y_matrix;
  std::array<int64_t, kMost> a_strides, b_strides;
  std::array<int64_t, kMost> extents = [] {
    std::array<int64_t, kMost> none{};
    none.fill(-1);
    return none;
  }();
};

class MatMulKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    const Products p(call.inputs[0].shape, call.inputs[1].shape, y.shape);
    p.for_each([&](int64_t a, int64_t b, int64_t to, bool, bool) {
      matmul_.run({.batch = p.batch, .m = p.m, .n = p.n, .k = p.k},
                  {call.inputs[0].f32() + a, false}, {call.inputs[1].f32() + b, false}, nullptr,
                  y.f32() + to);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      if (target.to.elements() == 0 || dy.elements() == 0) {
        if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
        continue;
      }
      const Products p(call.inputs[0].shape, call.inputs[1].shape, dy.shape);
      p.for_each([&](int64_t a, int64_t b, int64_t y, bool first_of_a, bool first_of_b) {
        if (target.input == 0)
          matmul_.run({.batch = p.batch,
                       .m = p.m,
                       .n = p.k,
                       .k = p.n,
                       .accumulate = target.accumulate || !first_of_a},
                      {dy.f32() + y, false}, {call.inputs[1].f32() + b, true}, nullptr, to + a);
        else
          matmul_.run({.batch = p.batch,
                       .m = p.k,
                       .n = p.n,
                       .k = p.m,
                       .accumulate = target.accumulate || !first_of_b},
                      {call.inputs[0].f32() + a, true}, {dy.f32() + y, false}, nullptr, to + b);
      });
    }
  }

 private:
  DnnlMatmul matmul_;
};

std::unique_ptr<Kernel> make_matmul(const KernelSite&) { return std::make_unique<MatMulKernel>(); }

}  // namespace

KernelEntries register_matmul() { return {{"MatMul", make_matmul}}; }

}  // namespace kerf::ops::cpu
