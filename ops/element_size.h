// Elements by their size alone, whatever they stand for.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace kerf::ops {

// Calls work(an unsigned zero of the type's size): for what moves and does not compute.
template <class Work>
void with_element(DType dtype, const Work& work) {
  switch (size_of(dtype)) {
    case 1:
      return work(uint8_t{});
    case 2:
      return work(uint16_t{});
    case 4:
      return work(uint32_t{});
    default:
      return work(uint64_t{});
  }
}

}  // namespace kerf::ops
