// Memory of the device that belongs to kernels, as their code does: index sets that they read while
// they run, partial sums, scratch that no plan grants.
//
// Counted for itself, not among the tensors that a proof is about, and bounded. Owned by the
// workbench, used by its compute thread; it outlives what it handed out.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace kerf::ops::cuda {

class KernelMemory {
 public:
  static constexpr size_t kMost = size_t{32} << 20U;  // bytes of a workbench

  // Of the device called `name`, which is current where memory is taken or given back.
  explicit KernelMemory(std::string name) : name_(std::move(name)) {}
  KernelMemory(const KernelMemory&) = delete;
  KernelMemory& operator=(const KernelMemory&) = delete;

  struct Free {
    KernelMemory* owner = nullptr;
    size_t bytes = 0;
    void operator()(void* data) const noexcept;
  };
  using Piece = std::unique_ptr<void, Free>;

  // Throws Error{kUnavailable} where memory is short, or would be more than kMost. Null for 0.
  Piece allocate(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  const std::string name_;
  size_t bytes_ = 0;
};

}  // namespace kerf::ops::cuda
