// Trilu and EyeLike on the CPU, row by row: columns are held in ascending order, so that a side of
// the diagonal is the begin or the end of a row.
#include <algorithm>
#include <cstring>

#include "ops/cpu/element.h"
#include "ops/cpu/indices.h"
#include "ops/element_size.h"
#include "ops/operators/trilu.h"

namespace kerf::ops::cpu {
namespace {

// The part of a matrix that a site computes.
struct MatrixPart {
  explicit MatrixPart(const KernelSite& site)
      : k(site.as<Diagonal>().k()),
        rows(local_axis(site, site.as<Diagonal>().rows())),
        columns(local_axis(site, site.as<Diagonal>().rows() + 1)) {}

  // The column of the diagonal in the row that is held at `row`.
  int64_t diagonal(int64_t row) const { return rows.global(row) + k; }

  int64_t k;
  LocalIndex rows;
  LocalIndex columns;
};

class TriluKernel final : public PlainKernel {
 public:
  explicit TriluKernel(const KernelSite& site) : part_(site), upper_(site.as<Trilu>().upper()) {}

  void forward(const Call& call) override { take(call.inputs[0], call.outputs[0]); }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (!target.accumulate) {
        take(dy, target.to);
        continue;
      }
      for_rows(dy.shape, [&](int64_t row, int64_t begin, int64_t end) {
        for (int64_t i = row + begin; i < row + end; ++i) target.to.f32()[i] += dy.f32()[i];
      });
    }
  }

 private:
  // Calls visit(first element, and of its row the begin and the end of what is taken).
  template <class Visit>
  void for_rows(const Shape& shape, const Visit& visit) const {
    const int64_t columns = shape[shape.rank() - 1];
    const int64_t rows = shape[shape.rank() - 2];
    if (shape.elements() == 0) return;
    for (int64_t i = 0; i < shape.elements() / columns; ++i) {
      const int64_t diagonal = part_.diagonal(i % rows);
      if (upper_)
        visit(i * columns, part_.columns.below(diagonal), columns);
      else
        visit(i * columns, 0, part_.columns.below(diagonal + 1));
    }
  }

  void take(const TensorView& from, const TensorView& to) const {
    const int64_t columns = to.shape[to.shape.rank() - 1];
    with_element(to.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_rows(to.shape, [&](int64_t row, int64_t begin, int64_t end) {
        T* y = to.as<T>() + row;
        if (from.data != to.data) std::copy_n(from.as<T>() + row + begin, end - begin, y + begin);
        std::fill(y, y + begin, T{});
        std::fill(y + end, y + columns, T{});
      });
    });
  }

  MatrixPart part_;
  bool upper_;
};

class EyeLikeKernel final : public PlainKernel {
 public:
  explicit EyeLikeKernel(const KernelSite& site) : part_(site) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    std::fill_n(y.data, y.bytes(), std::byte{0});
    for (int64_t row = 0; y.elements() > 0 && row < y.shape[0]; ++row) {
      const int64_t column = part_.columns.local(part_.diagonal(row));
      if (column < 0) continue;
      put_one(y.dtype, y.data + static_cast<size_t>(row * y.shape[1] + column) * size_of(y.dtype));
    }
  }

 protected:
  void gradient(const Call&, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
  }

 private:
  static void put_one(DType dtype, std::byte* to) {
    const auto put = [&](auto one) { std::memcpy(to, &one, sizeof one); };
    if (dtype == DType::kBool) return put(uint8_t{1});
    if (dtype == DType::kFloat16) return put(uint16_t{0x3C00});
    if (dtype == DType::kBFloat16) return put(uint16_t{0x3F80});
    with_number(dtype, [&](auto zero) { put(static_cast<decltype(zero)>(1)); });
  }

  MatrixPart part_;
};

}  // namespace

KernelEntries register_trilu() {
  return {{.op = "Trilu",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<TriluKernel>(site);
           }},
          {.op = "EyeLike", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<EyeLikeKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
