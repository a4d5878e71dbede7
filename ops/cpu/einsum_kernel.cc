// Einsum on the CPU: of two operands one batch of products of matrices, for which what does not lie
// as a stack of matrices is copied into one; of one operand a walk.
#include <algorithm>
#include <array>

#include "ops/cpu/matrix_product.h"
#include "ops/cpu/walk.h"
#include "ops/kernel.h"
#include "ops/operators/einsum.h"

namespace kerf::ops::cpu {
namespace {

using LetterExtents = std::array<int64_t, Shape::kMaxRank>;  // by letter
using Letters = std::vector<int>;

// How far apart the indices of every letter lie in a local operand; on a diagonal both steps.
LetterExtents letter_strides(const Letters& letters, const Shape& shape) {
  LetterExtents strides{};
  const auto own = strides_of(shape);
  for (size_t a = 0; a < letters.size(); ++a)
    if (letters[a] >= 0) strides[static_cast<size_t>(letters[a])] += own[a];
  return strides;
}

bool has_letter(const Letters& letters, int letter) {
  return std::find(letters.begin(), letters.end(), letter) != letters.end();
}

// The letters of a product, by who has them.
struct Groups {
  explicit Groups(const Einsum& op) {
    for (int i = 0; i < static_cast<int>(op.space().axes.size()); ++i) {
      const bool a = has_letter(op.input_letters(0), i);
      const bool b = has_letter(op.input_letters(1), i);
      const bool y = has_letter(op.output_letters(), i);
      if (a && b)
        (y ? batch : inner).push_back(i);
      else if (y && (a || b))
        (a ? rows : columns).push_back(i);
    }
  }
  Letters batch, rows, columns, inner;
};

// A stack of matrices [stack, first, second]; what an operand has beside them is summed.
struct Stack {
  const Letters* stack;
  const Letters* first;
  const Letters* second;
};

class EinsumKernel final : public PlainKernel {
 public:
  explicit EinsumKernel(const Einsum& op) : op_(op) {
    if (op.inputs().size() == 2) groups_.emplace(op);
  }

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    if (!groups_) {
      std::fill_n(y.f32(), y.elements(), 0.0F);
      add(walk(call, 0, y.shape), call.inputs[0].f32(), y.f32());
      return;
    }
    Workspace workspace(call.workspace);
    const Product p = product(call);
    const Matrix a = factor(p, left(), op_.input_letters(0), call.inputs[0], workspace);
    const Matrix b = factor(p, right(), op_.input_letters(1), call.inputs[1], workspace);
    write(p, {.batch = p.batch, .m = p.rows, .n = p.columns, .k = p.inner}, a, b, result(),
          op_.output_letters(), y, false, workspace);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (dy.elements() == 0 || target.to.elements() == 0) {
        if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
        continue;
      }
      if (!groups_) {
        if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
        add(walk(call, 0, dy.shape).turned(), dy.f32(), target.to.f32());
        continue;
      }
      product_gradient(call, dy, target);
    }
  }

 private:
  struct Product {
    LetterExtents extents{};
    int64_t batch, rows, columns, inner;
  };

  Stack left() const { return {&groups_->batch, &groups_->rows, &groups_->inner}; }
  Stack right() const { return {&groups_->batch, &groups_->inner, &groups_->columns}; }
  Stack result() const { return {&groups_->batch, &groups_->rows, &groups_->columns}; }

  void product_gradient(const Call& call, const TensorView& dy, const GradientTarget& target) {
    Workspace workspace(call.workspace);
    const Product p = product(call);
    const Matrix d = factor(p, result(), op_.output_letters(), dy, workspace);
    if (target.input == 0) {
      Matrix b = factor(p, right(), op_.input_letters(1), call.inputs[1], workspace);
      b.transposed = !b.transposed;
      write(p, {.batch = p.batch, .m = p.rows, .n = p.inner, .k = p.columns}, d, b, left(),
            op_.input_letters(0), target.to, target.accumulate, workspace);
      return;
    }
    Matrix a = factor(p, left(), op_.input_letters(0), call.inputs[0], workspace);
    a.transposed = !a.transposed;
    write(p, {.batch = p.batch, .m = p.inner, .n = p.columns, .k = p.rows}, a, d, right(),
          op_.input_letters(1), target.to, target.accumulate, workspace);
  }

  // The extents of all letters, of the operands of a call.
  LetterExtents extents(const Call& call) const {
    LetterExtents extents;
    extents.fill(1);
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const Letters& letters = op_.input_letters(static_cast<int>(i));
      for (size_t a = 0; a < letters.size(); ++a)
        if (letters[a] >= 0)
          extents[static_cast<size_t>(letters[a])] = call.inputs[i].shape[static_cast<int>(a)];
    }
    return extents;
  }

  static int64_t together(const LetterExtents& extents, const Letters& letters) {
    int64_t count = 1;
    for (const int letter : letters) count *= extents[static_cast<size_t>(letter)];
    return count;
  }

  Product product(const Call& call) const {
    Product p{extents(call), 1, 1, 1, 1};
    p.batch = together(p.extents, groups_->batch);
    p.rows = together(p.extents, groups_->rows);
    p.columns = together(p.extents, groups_->columns);
    p.inner = together(p.extents, groups_->inner);
    return p;
  }

  // Of one operand: from it to the output, in its own order.
  Walk walk(const Call& call, int input, const Shape& y) const {
    const Letters& own = op_.input_letters(input);
    const LetterExtents from = letter_strides(own, call.inputs[0].shape);
    const LetterExtents to = letter_strides(op_.output_letters(), y);
    const LetterExtents counts = extents(call);
    Walk walk;
    for (size_t letter = 0; letter < op_.space().axes.size(); ++letter)
      walk.add({counts[letter], from[letter], to[letter]});
    return walk;
  }

  // From an operand to a dense stack of matrices.
  Walk packing(const Product& p, const Stack& stack, const Letters& letters,
               const Shape& shape) const {
    const LetterExtents strides = letter_strides(letters, shape);
    Walk walk;
    int64_t to = together(p.extents, *stack.stack) * together(p.extents, *stack.first) *
                 together(p.extents, *stack.second);
    Letters others = letters;  // summed
    for (const Letters* group : {stack.stack, stack.first, stack.second})
      for (const int letter : *group) {
        const auto l = static_cast<size_t>(letter);
        if (p.extents[l] > 0) to /= p.extents[l];
        walk.add({p.extents[l], strides[l], to});
        std::erase(others, letter);
      }
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    for (const int letter : others)
      if (letter >= 0)
        walk.add({p.extents[static_cast<size_t>(letter)], strides[static_cast<size_t>(letter)], 0});
    return walk;
  }

  static bool is_dense(const Walk& walk) {
    return walk.count() == 0 || (walk.count() == 1 && walk[0].from == 1 && walk[0].to == 1);
  }
  static bool has_sums(const Walk& walk) {
    return std::any_of(walk.begin(), walk.end(), [](const WalkAxis& axis) { return axis.to == 0; });
  }

  // The operand as matrices of a product: where it lies, or copied.
  Matrix factor(const Product& p, const Stack& stack, const Letters& letters,
                const TensorView& operand, Workspace& workspace) const {
    const Stack turned{stack.stack, stack.second, stack.first};
    const Walk straight = packing(p, stack, letters, operand.shape);
    if (is_dense(straight)) return {operand.f32(), false};
    if (is_dense(packing(p, turned, letters, operand.shape))) return {operand.f32(), true};
    const int64_t count = together(p.extents, *stack.stack) * together(p.extents, *stack.first) *
                          together(p.extents, *stack.second);
    auto* packed = workspace.take<float>(count);
    if (has_sums(straight)) {
      std::fill_n(packed, count, 0.0F);
      add(straight, operand.f32(), packed);
    } else {
      copy(straight, operand.data, reinterpret_cast<std::byte*>(packed), sizeof(float));
    }
    return {packed, false};
  }

  // The product into an operand, which sees it again and again where it was summed.
  void write(const Product& p, MatrixProduct::Problem problem, Matrix a, Matrix b,
             const Stack& stack, const Letters& letters, const TensorView& to, bool accumulate,
             Workspace& workspace) {
    const Walk from = packing(p, stack, letters, to.shape);
    if (is_dense(from)) {
      problem.accumulate = accumulate;
      matmul_.run(problem, a, b, nullptr, to.f32(), workspace);
      return;
    }
    auto* packed = workspace.take<float>(problem.batch * problem.m * problem.n);
    matmul_.run(problem, a, b, nullptr, packed, workspace);
    if (!accumulate) std::fill_n(to.f32(), to.elements(), 0.0F);
    add(from.turned(), packed, to.f32());
  }

  const Einsum& op_;
  std::optional<Groups> groups_;  // of two operands
  MatrixProduct matmul_;
};

// The operands packed, and the product that takes most.
size_t einsum_workspace(const BoundOperator& bound, const LocalSpecs& local, int threads) {
  const auto& op = static_cast<const Einsum&>(bound);
  if (op.inputs().size() < 2 || local.outputs[0].shape.elements() == 0) return 0;
  const Groups groups(op);
  LetterExtents extents;
  extents.fill(1);
  size_t packed = piece_bytes<float>(local.outputs[0].shape.elements());
  for (size_t i = 0; i < 2; ++i) {
    packed += piece_bytes<float>(local.inputs[i].shape.elements());
    const Letters& letters = op.input_letters(static_cast<int>(i));
    for (size_t a = 0; a < letters.size(); ++a)
      if (letters[a] >= 0)
        extents[static_cast<size_t>(letters[a])] = local.inputs[i].shape[static_cast<int>(a)];
  }
  const auto together = [&](const Letters& letters) {
    int64_t count = 1;
    for (const int letter : letters) count *= extents[static_cast<size_t>(letter)];
    return count;
  };
  const int64_t batch = together(groups.batch);
  const int64_t m = together(groups.rows);
  const int64_t n = together(groups.columns);
  const int64_t k = together(groups.inner);
  size_t most = 0;
  const auto add_product = [&](MatrixProduct::Problem problem, bool accumulates) {
    for (const bool accumulate : {false, true})
      for (const bool a : {false, true})
        for (const bool b : {false, true}) {
          if (accumulate && !accumulates) continue;
          problem.accumulate = accumulate;
          most = std::max(most, MatrixProduct::workspace_bytes(problem, a, b, false, threads));
        }
  };
  if (batch * m * n * k == 0) return packed;
  add_product({.batch = batch, .m = m, .n = n, .k = k}, false);
  if (op.inputs()[0].wants_gradient) add_product({.batch = batch, .m = m, .n = k, .k = n}, true);
  if (op.inputs()[1].wants_gradient) add_product({.batch = batch, .m = k, .n = n, .k = m}, true);
  return packed + most;
}

}  // namespace

KernelEntries register_einsum() {
  return {{.op = "Einsum",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<EinsumKernel>(site.as<Einsum>());
           },
           .workspace = einsum_workspace}};
}

}  // namespace kerf::ops::cpu
