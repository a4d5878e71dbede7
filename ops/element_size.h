// Elements by their size alone, whatever they stand for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/tensor.h"

namespace kerf::ops {

// Calls work(an unsigned zero of so many bytes): for what moves and does not compute.
template <class Work>
void with_element_of(size_t bytes, const Work& work) {
  switch (bytes) {
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

// The same for elements of this type.
template <class Work>
void with_element(DType dtype, const Work& work) {
  with_element_of(size_of(dtype), work);
}

}  // namespace kerf::ops
