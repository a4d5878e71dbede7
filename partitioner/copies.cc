#include "partitioner/copies.h"

namespace kerf::partitioner {
namespace {

int64_t touched(const Part& part, const Move& move, bool add, int64_t samples) {
  const ops::ValueSpec& whole = part.locals[static_cast<size_t>(move.local)].whole;
  const size_t bytes =
      part.times_only
          ? static_cast<size_t>(ops::local_shape(move.piece, whole.shape, samples).elements()) *
                ops::size_of(whole.dtype)
          : move.selection.bytes(samples);
  return static_cast<int64_t>(bytes) * (add ? 3 : 2);
}

}  // namespace

int64_t copied_bytes(const Part& part, const Instruction& instruction, int64_t samples) {
  using Kind = Instruction::Kind;
  // A copy has two ends, of which the second says whether it adds.
  if (instruction.kind == Kind::kCopy)
    return touched(part, instruction.moves[0], instruction.moves[1].add, samples);
  if (instruction.kind != Kind::kSend && instruction.kind != Kind::kReceive) return 0;
  int64_t bytes = 0;
  for (const Move& move : instruction.moves) bytes += touched(part, move, move.add, samples);
  return bytes;
}

}  // namespace kerf::partitioner
