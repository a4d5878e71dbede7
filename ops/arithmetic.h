// What decides rounding on this machine: the instruction set in use and the versions of the arithmetic
// libraries. Two workers with equal text compute the same bits.
#pragma once

#include <string>

namespace kerf::ops {

std::string arithmetic_identity();  // "oneDNN 2.6.3, avx512_core_bf16"

}  // namespace kerf::ops
