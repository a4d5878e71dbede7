// Vectors that lie in pieces at workers: what a coordinator that holds none asks to be done with
// them (lbfgs.h), and a worker's piece of each.
//
// All workers are told the same list of operations, each does them to its pieces, and only sums
// come back: Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, section 4.2. Vectors
// are float32; every operation is done in float64 and rounded once, and sums are float64. They
// depend on the pieces and not on threads or instruction sets. The structs are plain values that
// travel by runtime/wire.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kerf::schedmp {

inline constexpr int kMostHistory = 1000;  // of pairs that are kept

// Vectors by number. The first two are the model's: where it is, and what a step computed there.
enum LbfgsVector : int32_t {
  kPoint,
  kGradient,  // only read
  kBase,      // the last point that was accepted, and its gradient
  kBaseGradient,
  kDirection,
  kFirstPair,  // from here on two for each pair that L-BFGS keeps
};
// Of pair `pair`: how the point changed, and how the gradient did.
constexpr int32_t change_of_point(int pair) { return kFirstPair + 2 * pair; }
constexpr int32_t change_of_gradient(int pair) { return kFirstPair + 2 * pair + 1; }

enum class VectorAct : uint8_t {
  kSet,      // a = factor * b
  kAdd,      // a += factor * b
  kDot,      // asks for the sum of a * b
  kLargest,  // asks for the largest magnitude in a; infinity where an entry is not finite
};

struct VectorOperation {
  VectorAct act = VectorAct::kSet;
  int32_t a = 0;
  int32_t b = 0;
  double factor = 1;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(act, a, b, factor);
  }
};

// Operations in their order. What is asked for is answered in that order.
struct VectorWork {
  std::vector<VectorOperation> operations;

  void set(int32_t a, int32_t b, double factor = 1) {
    operations.push_back({VectorAct::kSet, a, b, factor});
  }
  void add(int32_t a, int32_t b, double factor) {
    operations.push_back({VectorAct::kAdd, a, b, factor});
  }
  void dot(int32_t a, int32_t b) { operations.push_back({VectorAct::kDot, a, b}); }
  void largest(int32_t a) { operations.push_back({VectorAct::kLargest, a, a}); }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(operations);
  }
};

// What `work` asks for, of no pieces yet; and one piece's answer added to that. In one order of
// pieces the bits are the same.
std::vector<double> nothing_of(const VectorWork& work);
void fold(const VectorWork& work, std::span<const double> piece, std::span<double> whole);

// A worker's piece of every vector; one thread at a time. The point and the gradient are memory of
// somebody else, in stretches as parameters lie, which outlives this; the other vectors are here,
// zero at first.
class VectorPieces {
 public:
  struct Stretch {
    std::span<float> point;
    std::span<const float> gradient;  // as long
  };
  // For L-BFGS with this history.
  VectorPieces(const std::vector<Stretch>& stretches, int history);

  // Does the work; what it asks for, of this piece. Uses the calling thread's OpenMP threads.
  std::vector<double> run(const VectorWork& work);
  // This piece of a vector that is here; whether any work has set it, or it is still zero.
  std::span<float> piece(int32_t vector);
  bool is_set(int32_t vector) const { return set_.at(static_cast<size_t>(vector)) != 0; }
  // All pieces of it were filled in by hand.
  void note_set(int32_t vector) { set_.at(static_cast<size_t>(vector)) = 1; }
  int32_t vectors() const { return vectors_; }
  // Of memory that is here.
  int64_t bytes() const { return static_cast<int64_t>(kept_.size() * sizeof(float)); }

 private:
  // All operations are done to one block after another, while it is near.
  struct Block {
    float* point = nullptr;
    const float* gradient = nullptr;
    int64_t kept = 0;  // where it begins in each vector that is here
    int64_t count = 0;
  };
  void check(const VectorWork& work) const;
  const float* read(const Block& block, int32_t vector) const;
  float* written(const Block& block, int32_t vector);
  void run_block(const VectorWork& work, const Block& block, std::span<double> answers);

  std::vector<Block> blocks_;
  int64_t length_ = 0;  // of each vector
  int32_t vectors_;
  std::vector<float> kept_;  // the vectors from kBase on, one behind the other
  std::vector<char> set_;    // by vector
};

}  // namespace kerf::schedmp
