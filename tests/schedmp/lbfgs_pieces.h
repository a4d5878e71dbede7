// A point and its gradient in one memory, as pieces of several workers that have them in stretches.
#pragma once

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "schedmp/training/lbfgs_vectors.h"

namespace kerf::schedmp::tests {

inline std::vector<float> normal_floats(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& each : values) each = normal(random);
  return values;
}

class LbfgsPieces {
 public:
  // Of each piece two stretches; shares are not even.
  LbfgsPieces(std::vector<float> at, int pieces, int history)
      : point(std::move(at)), gradient(point.size()) {
    const auto cut = [&](int i) {
      return point.size() * static_cast<size_t>(i * i) / static_cast<size_t>(4 * pieces * pieces);
    };
    for (int piece = 0; piece < pieces; ++piece) {
      std::vector<VectorPieces::Stretch> stretches;
      for (const int i : {2 * piece, 2 * piece + 1}) {
        const size_t begin = cut(i);
        const size_t length = cut(i + 1) - begin;
        stretches.push_back(
            {std::span(point).subspan(begin, length), std::span(gradient).subspan(begin, length)});
      }
      pieces_.emplace_back(std::move(stretches), history);
    }
  }

  std::vector<double> run(const VectorWork& work) {
    std::vector<double> sums = nothing_of(work);
    for (VectorPieces& each : pieces_) fold(work, each.run(work), sums);
    return sums;
  }
  // Any vector but the gradient, by way of the point.
  std::vector<float> read(int32_t vector) {
    const std::vector<float> before = point;
    move(kPoint, vector);
    const std::vector<float> values = point;
    std::ranges::copy(before, point.begin());
    return values;
  }
  void write(int32_t vector, const std::vector<float>& values) {
    const std::vector<float> before = point;
    std::ranges::copy(values, point.begin());
    move(vector, kPoint);
    if (vector != kPoint) std::ranges::copy(before, point.begin());
  }

  std::vector<float> point, gradient;

 private:
  void move(int32_t to, int32_t from) {
    VectorWork work;
    work.set(to, from);
    run(work);
  }

  std::vector<VectorPieces> pieces_;
};

}  // namespace kerf::schedmp::tests
