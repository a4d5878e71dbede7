// The memory that a worker computes in: one arena, taken once.
//
// Regions and their instances lie in it as an ArenaPlan says (schedmp/interpreter.h); a kernel takes
// its workspace from a GrantedDevice, which hands out the scratch memory that its call was lowered
// with. Used by the compute thread only.
#pragma once

#include <array>
#include <mutex>

#include "runtime/device.h"
#include "schedmp/interpreter.h"

namespace kerf::schedmp {

// A device whose allocations come out of a grant, and are all given back before the next one. A
// kernel's threads may allocate at once. Everything else is the device behind it, which must outlive
// it.
class GrantedDevice final : public runtime::Device {
 public:
  explicit GrantedDevice(runtime::Device& behind) : behind_(behind) {}

  // From now on allocate() divides `bytes` at `memory`, in blocks of 64: the smallest gap that fits.
  void grant(std::byte* memory, int64_t bytes);

  runtime::DeviceKind kind() const override { return behind_.kind(); }
  std::string name() const override { return behind_.name(); }
  std::string description() const override { return behind_.description(); }
  // Throws Error{kInternal} beyond the grant: the operator asked for too little.
  runtime::Buffer allocate(size_t bytes) override;
  std::unique_ptr<runtime::Stream> make_stream() override { return behind_.make_stream(); }
  std::unique_ptr<runtime::Event> make_event() override { return behind_.make_event(); }
  runtime::MemoryStats memory() const override { return behind_.memory(); }
  void reset_peak() override { behind_.reset_peak(); }

 protected:
  void release(void* data, size_t bytes) noexcept override;

 private:
  runtime::Device& behind_;
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  static constexpr size_t kMostBuffers = 256;

  std::mutex mutex_;
  std::byte* memory_ = nullptr;
  size_t granted_ = 0;
  size_t live_ = 0;
  std::array<Range, kMostBuffers> ranges_;  // live ones, ascending
};

}  // namespace kerf::schedmp
