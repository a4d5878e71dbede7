// A long vector of numbers that scheduler and workers tell each other piece by piece, since a
// message holds no more. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/layout.h"
#include "runtime/error.h"

namespace kerf::apps {

inline constexpr int64_t kMostInAPiece = 100'000;  // numbers

// Of a vector of so many numbers, in order; each but the last is as long as can be.
inline std::vector<ops::Range> pieces_of(int64_t numbers) {
  std::vector<ops::Range> pieces;
  for (int64_t first = 0; first < numbers; first += kMostInAPiece)
    pieces.push_back({first, std::min(numbers, first + kMostInAPiece)});
  return pieces;
}

inline std::vector<double> piece_of(const std::vector<double>& whole, const ops::Range& piece) {
  return {whole.begin() + piece.begin, whole.begin() + piece.end};
}

inline void add_piece(std::vector<double>& whole, const ops::Range& piece,
                      const std::vector<double>& values) {
  KERF_CHECK(std::ssize(values) == piece.size(), "a piece of {} numbers, not {}", values.size(),
             piece.size());
  for (size_t i = 0; i < values.size(); ++i)
    whole[static_cast<size_t>(piece.begin) + i] += values[i];
}

// Where tasks tell all pieces, one behind the other, the last of them asks for the first piece of
// an answer, and more tasks for the others: the piece that the answer to a task has, or an empty
// one.
inline ops::Range piece_answered(const std::vector<ops::Range>& pieces, size_t task) {
  return task + 1 < pieces.size() ? ops::Range{} : pieces[task + 1 - pieces.size()];
}
inline size_t tasks_of_pieces(const std::vector<ops::Range>& pieces) {
  return 2 * pieces.size() - 1;
}

inline double dot_of(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace kerf::apps
