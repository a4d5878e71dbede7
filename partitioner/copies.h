// Copies: what an instruction moves within its worker's memory, to pack what it sends, to unpack or
// add what it receives, and to put a tensor together. Pure functions.
#pragma once

#include "partitioner/cost.h"
#include "partitioner/part.h"

namespace kerf::partitioner {

// Bytes that are read and written: two for each that is copied, three for each that is added, for a
// micro-batch of `samples` (what is of the step has no use for them). Nothing where a message is
// made in its slot, or read from its view, and for what computes. Parts of times alone have them,
// too.
//
//   send    fc1 -> 2, packed              read the local, write the slot               2 a byte
//   receive dfc1 <- 2, added              read the message, read and write the local   3
//   send    fc1 -> 2, made in the slot                                                 0
int64_t copied_bytes(const Part& part, const Instruction& instruction, int64_t samples);

// On a device of this bandwidth; of a worker it is divided by its speed.
inline double copy_seconds(const DeviceSpeed& speed, double bytes) {
  return bytes / speed.bytes_per_second;
}

}  // namespace kerf::partitioner
