// Workspaces of cuBLASLt and cuDNN, which both want them to begin as memory that CUDA hands out;
// a plan grants them at multiples of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kerf::ops::cuda {

inline constexpr size_t kLibraryAlignment = 256;

// What is asked for where a library takes so many bytes.
constexpr size_t with_library_alignment(size_t bytes) { return bytes + kLibraryAlignment; }
// Where in such a workspace the library's begins.
inline std::byte* aligned_for_library(std::span<std::byte> workspace) {
  const size_t past = reinterpret_cast<uintptr_t>(workspace.data()) % kLibraryAlignment;
  return workspace.data() + (kLibraryAlignment - past) % kLibraryAlignment;
}

}  // namespace kerf::ops::cuda
