#include "schedmp/training/lbfgs_vectors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"
#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr int64_t kEntriesOfBlock = 1 << 12;

KERF_CLONES void set_block(float* a, const float* b, int64_t count, double factor) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) a[i] = static_cast<float>(factor * double{b[i]});
}

KERF_CLONES void add_block(float* a, const float* b, int64_t count, double factor) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    a[i] = static_cast<float>(double{a[i]} + factor * double{b[i]});
}

KERF_CLONES double dot_block(const float* a, const float* b, int64_t count) {
  return ops::simd::sum_in_lanes<double>(count,
                                         [=](int64_t i) { return double{a[i]} * double{b[i]}; });
}

KERF_CLONES float largest_of_block(const float* a, int64_t count) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, a[i] == a[i] ? std::abs(a[i]) : kInfinity);
  return largest;
}

bool asks(const VectorOperation& operation) {
  return operation.act == VectorAct::kDot || operation.act == VectorAct::kLargest;
}

}  // namespace

std::vector<double> nothing_of(const VectorWork& work) {
  return std::vector<double>(static_cast<size_t>(std::ranges::count_if(work.operations, asks)));
}

void fold(const VectorWork& work, std::span<const double> piece, std::span<double> whole) {
  size_t answer = 0;
  for (const VectorOperation& operation : work.operations) {
    if (!asks(operation)) continue;
    KERF_CHECK(answer < piece.size() && answer < whole.size(), "{} and {} answers", piece.size(),
               whole.size());
    double& to = whole[answer];
    to = operation.act == VectorAct::kDot ? to + piece[answer] : std::max(to, piece[answer]);
    ++answer;
  }
  KERF_CHECK(answer == piece.size() && answer == whole.size(), "{} and {} answers, not {}",
             piece.size(), whole.size(), answer);
}

VectorPieces::VectorPieces(const std::vector<Stretch>& stretches, int history)
    : vectors_(change_of_point(history)) {
  KERF_CHECK(history >= 1 && history <= kMostHistory, "a history of {}", history);
  for (const Stretch& stretch : stretches) {
    KERF_CHECK(stretch.point.size() == stretch.gradient.size(), "{} entries have {} gradients",
               stretch.point.size(), stretch.gradient.size());
    const int64_t count = std::ssize(stretch.point);
    for (int64_t begin = 0; begin < count; begin += kEntriesOfBlock)
      blocks_.push_back({stretch.point.data() + begin, stretch.gradient.data() + begin,
                         length_ + begin, std::min(count - begin, kEntriesOfBlock)});
    length_ += count;
  }
  kept_.resize(static_cast<size_t>(length_ * (vectors_ - kBase)));
  set_.resize(static_cast<size_t>(vectors_));
}

std::vector<double> VectorPieces::run(const VectorWork& work) {
  check(work);
  for (const VectorOperation& each : work.operations)
    if (!asks(each)) note_set(each.a);
  std::vector<double> whole = nothing_of(work);
  const size_t asked = whole.size();
  std::vector<double> answers(blocks_.size() * asked);
  const auto of_block = [&](size_t block) {
    return std::span(answers).subspan(block * asked, asked);
  };
  ops::simd::parallel_pieces(std::ssize(blocks_), ops::simd::kLeastElements / kEntriesOfBlock,
                             [&](int64_t begin, int64_t end) {
                               for (auto block = static_cast<size_t>(begin);
                                    block < static_cast<size_t>(end); ++block)
                                 run_block(work, blocks_[block], of_block(block));
                             });
  for (size_t block = 0; block < blocks_.size(); ++block) fold(work, of_block(block), whole);
  return whole;
}

void VectorPieces::check(const VectorWork& work) const {
  for (const VectorOperation& each : work.operations) {
    const bool known = each.act <= VectorAct::kLargest && each.a >= 0 && each.a < vectors_ &&
                       each.b >= 0 && each.b < vectors_;
    KERF_CHECK(known, "operation {} on vectors {} and {}, of {}", static_cast<int>(each.act),
               each.a, each.b, vectors_);
    KERF_CHECK(asks(each) || each.a != kGradient, "the gradient is only read");
  }
}

std::span<float> VectorPieces::piece(int32_t vector) {
  KERF_CHECK(vector >= kBase && vector < vectors_, "vector {} of {}", vector, vectors_);
  return std::span(kept_).subspan(static_cast<size_t>((vector - kBase) * length_),
                                  static_cast<size_t>(length_));
}

const float* VectorPieces::read(const Block& block, int32_t vector) const {
  if (vector == kPoint) return block.point;
  if (vector == kGradient) return block.gradient;
  return kept_.data() + (vector - kBase) * length_ + block.kept;
}

float* VectorPieces::written(const Block& block, int32_t vector) {
  if (vector == kPoint) return block.point;
  return kept_.data() + (vector - kBase) * length_ + block.kept;
}

void VectorPieces::run_block(const VectorWork& work, const Block& block,
                             std::span<double> answers) {
  size_t answer = 0;
  for (const VectorOperation& each : work.operations) {
    const float* b = read(block, each.b);
    switch (each.act) {
      case VectorAct::kSet:
        set_block(written(block, each.a), b, block.count, each.factor);
        break;
      case VectorAct::kAdd:
        add_block(written(block, each.a), b, block.count, each.factor);
        break;
      case VectorAct::kDot:
        answers[answer++] = dot_block(read(block, each.a), b, block.count);
        break;
      case VectorAct::kLargest:
        answers[answer++] = static_cast<double>(largest_of_block(read(block, each.a), block.count));
        break;
    }
  }
}

}  // namespace kerf::schedmp
