// A call's workspace, handed out piece by piece.
//
// Made at the beginning of a call over memory that the plan granted; pieces live until the call
// ends. A kernel's `workspace` function adds up the same pieces with `piece_bytes`. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/error.h"

namespace kerf::ops {

inline constexpr size_t kPieceAlignment = 64;  // relative to the workspace: a cache line

// What a piece takes of the workspace.
template <class T>
constexpr size_t piece_bytes(int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

class Workspace {
 public:
  explicit Workspace(std::span<std::byte> memory) : left_(memory) {}

  // Uninitialised. Throws Error{kInternal} where the grant is too small: the operator's `workspace`
  // function has promised less than its kernel takes.
  template <class T>
  T* take(int64_t count) {
    const size_t bytes = piece_bytes<T>(count);
    KERF_CHECK(bytes <= left_.size(), "{} bytes of workspace are asked for where {} are left",
               bytes, left_.size());
    T* piece = reinterpret_cast<T*>(left_.data());
    left_ = left_.subspan(bytes);
    return piece;
  }
  size_t bytes_left() const { return left_.size(); }

 private:
  std::span<std::byte> left_;
};

}  // namespace kerf::ops
