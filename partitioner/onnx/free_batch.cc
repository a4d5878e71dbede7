#include "partitioner/onnx/free_batch.h"

#include <algorithm>
#include <cstdlib>
#include <set>

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
  Freed(const ops::Shape& from, int64_t outer, const std::vector<Affine>& wanted,
        std::optional<int64_t> batch)
      : from_(from), outer_(outer), wanted_(wanted), batch_(batch) {}

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

  // The batch stays behind as many elements as it was. Where the file's is 1, several axes may have
  // it: one of its own if there is any, else one with what is inside of a sample (heads), else with
  // what is outside (positions), and what the last axis has, features, last of all.
  std::vector<int64_t> with_place() {
    const int64_t before = before_batch(from_, outer_);
    std::optional<size_t> best;
    int best_rank = 0;
    int64_t at = 1;
    for (size_t i = 0; i < shape_.size(); ++i) {
      const int64_t extent = shape_[i].fixed;
      if (const auto rank = rank_of(i, extent, at, before); rank && (!best || *rank < best_rank)) {
        best = i;
        best_rank = *rank;
      }
      if (extent < 1 || __builtin_mul_overflow(at, extent, &at)) refuse();
    }
    if (!best || at % *batch_ != 0 || at / *batch_ != from_.elements_per_sample()) refuse();
    shape_[*best] = {0, -1};
    return fixed();
  }

  // Of an axis with `at` elements of the shape before it; nothing where the batch is not within.
  std::optional<int> rank_of(size_t axis, int64_t extent, int64_t at, int64_t before) const {
    if (before % at != 0) return std::nullopt;
    const int64_t outer = before / at;
    int64_t least = 0;
    if (__builtin_mul_overflow(outer, *batch_, &least) || least == 0 || extent % least != 0)
      return std::nullopt;
    if (extent == *batch_) return static_cast<int>(axis) == from_.batch_axis() ? 0 : 1;
    if (axis + 1 == shape_.size()) return 4;
    return outer == 1 ? 2 : 3;
  }

  const ops::Shape& from_;
  int64_t outer_;
  const std::vector<Affine>& wanted_;
  std::optional<int64_t> batch_;  // of the file
  std::vector<Affine> shape_;
};

}  // namespace

int64_t before_batch(const ops::Shape& shape, int64_t outer) {
  int64_t before = outer;
  for (int axis = 0; axis < shape.batch_axis(); ++axis)
    if (__builtin_mul_overflow(before, shape[axis], &before))
      throw Error(ErrorCode::kUsage, format("{} has more elements before its batch than can be "
                                            "counted",
                                            ops::to_string(shape)));
  return before;
}

std::optional<int64_t> outer_in(const ops::Shape& shape, int64_t before) {
  const int axis = shape.batch_axis();
  if (axis < 0) return 1;
  const int64_t ahead = before_batch(shape, 1);
  if (ahead == 0 || before % ahead != 0) return std::nullopt;
  const int64_t outer = before / ahead;
  return outer != 0 && -shape[axis] % outer == 0 ? std::optional(outer) : std::nullopt;
}

std::vector<int64_t> reshape_to(const ops::Shape& from, int64_t outer,
                                const std::vector<Affine>& wanted,
                                std::optional<int64_t> fixed_batch) {
  return Freed(from, outer, wanted, fixed_batch).shape();
}

bool is_repeated(const std::string& op, size_t input) {
  static const std::set<std::string> kAll{"Add",
                                          "And",
                                          "BitwiseAnd",
                                          "BitwiseOr",
                                          "BitwiseXor",
                                          "Div",
                                          "Equal",
                                          "Greater",
                                          "Less",
                                          "Max",
                                          "Mean",
                                          "Min",
                                          "GreaterOrEqual",
                                          "LessOrEqual",
                                          "MatMul",
                                          "Mod",
                                          "Mul",
                                          "Or",
                                          "Pow",
                                          "PRelu",
                                          "Sub",
                                          "Sum",
                                          "Where",
                                          "Xor"};
  return kAll.contains(op) || (op == "Gemm" && input == 2);
}

}  // namespace kerf::partitioner::onnx
