#include "partitioner/onnx/free_batch.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/error.h"

namespace kerf::partitioner::onnx {
namespace {

std::string text_of(const std::vector<Affine>& shape) {
  if (shape.size() > ops::Shape::kMaxRank) return format("a shape of {} axes", shape.size());
  std::vector<std::string> extents;
  for (const Affine& extent : shape)
    extents.push_back(extent.is_fixed() ? std::to_string(extent.fixed)
                                        : format("{}N+{}", extent.of_batch, extent.fixed));
  return format("[{}]", fmt::join(extents, ", "));
}

class Freed {
 public:
  Freed(const ops::Shape& from, const std::vector<Affine>& wanted, std::optional<int64_t> batch)
      : from_(from), wanted_(wanted), batch_(batch) {}

  std::vector<int64_t> shape() {
    copy_zeros();
    if (!from_.batched()) return fixed();
    const auto symbolic = std::find_if(shape_.begin(), shape_.end(),
                                       [](const Affine& extent) { return !extent.is_fixed(); });
    if (symbolic != shape_.end()) return with_symbolic(symbolic);
    const auto inferred = std::find(shape_.begin(), shape_.end(), Affine{0, -1});
    if (!batch_) return inferred == shape_.end() ? refuse() : fixed();
    infer(inferred);
    return with_place();
  }

 private:
  [[noreturn]] std::vector<int64_t> refuse() const {
    throw Error(ErrorCode::kUsage, format("no axis of {} can be the batch of {}", text_of(wanted_),
                                          ops::to_string(from_)));
  }

  void copy_zeros() {
    for (size_t i = 0; i < wanted_.size(); ++i) {
      shape_.push_back(wanted_[i]);
      if (!(wanted_[i] == Affine{}) || static_cast<int>(i) >= from_.rank()) continue;
      const int64_t extent = from_[static_cast<int>(i)];
      shape_[i] = extent < 0 ? Affine{-extent, 0} : Affine{0, extent};
    }
  }

  std::vector<int64_t> fixed() const {
    std::vector<int64_t> result;
    for (const Affine& extent : shape_) {
      if (!extent.is_fixed()) refuse();
      result.push_back(extent.fixed);
    }
    return result;
  }

  // One axis counts rows: the others are numbers, of which one may be left out.
  std::vector<int64_t> with_symbolic(std::vector<Affine>::iterator symbolic) {
    if (symbolic->fixed != 0) refuse();
    const auto inferred = std::find(shape_.begin(), shape_.end(), Affine{0, -1});
    if (inferred != shape_.end()) {
      const int64_t known = product_but(inferred, symbolic->of_batch);
      if (known == 0 || from_.elements_per_sample() % known != 0) refuse();
      inferred->fixed = from_.elements_per_sample() / known;
    }
    *symbolic = {0, -1};
    return fixed();
  }

  int64_t product_but(std::vector<Affine>::const_iterator left_out, int64_t first) const {
    int64_t known = first;
    for (auto at = shape_.begin(); at != shape_.end(); ++at)
      if (at != left_out && at->is_fixed() &&
          (at->fixed < 0 || __builtin_mul_overflow(known, at->fixed, &known)))
        refuse();
    return known;
  }

  // As the file means it, of its own batch.
  void infer(std::vector<Affine>::iterator inferred) {
    if (inferred == shape_.end()) return;
    const int64_t known = product_but(inferred, 1);
    int64_t all = 0;
    if (known == 0 || __builtin_mul_overflow(from_.elements_per_sample(), *batch_, &all) ||
        all % known != 0)
      refuse();
    inferred->fixed = all / known;
  }

  // The batch stays behind as many elements as it was.
  std::vector<int64_t> with_place() {
    int64_t before = 1;
    for (int axis = 0; axis < from_.batch_axis(); ++axis)
      if (__builtin_mul_overflow(before, from_[axis], &before)) refuse();
    int64_t at = 1;
    for (auto axis = shape_.begin(); axis != shape_.end() && at <= before; ++axis) {
      const int64_t extent = axis->fixed;
      if (at == before && extent > 0 && extent % *batch_ == 0 &&
          product_but(axis, extent / *batch_) == from_.elements_per_sample()) {
        *axis = {0, -1};
        return fixed();
      }
      if (extent < 1 || __builtin_mul_overflow(at, extent, &at)) refuse();
    }
    return refuse();
  }

  const ops::Shape& from_;
  const std::vector<Affine>& wanted_;
  std::optional<int64_t> batch_;  // of the file
  std::vector<Affine> shape_;
};

}  // namespace

std::vector<int64_t> reshape_to(const ops::Shape& from, const std::vector<Affine>& wanted,
                                std::optional<int64_t> fixed_batch) {
  return Freed(from, wanted, fixed_batch).shape();
}

}  // namespace kerf::partitioner::onnx
