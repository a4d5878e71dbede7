#include "tests/conformance/guarded_memory.h"

#include <algorithm>
#include <vector>

namespace kerf::ops {
namespace {

constexpr size_t kGuard = 256;
constexpr std::byte kUnset{0xff};
constexpr std::byte kSentinel{0x5a};

}  // namespace

GuardedMemory::GuardedMemory(runtime::Device& device, runtime::Stream& stream, size_t bytes)
    : bytes_(bytes), buffer_(device.allocate(bytes + kGuard)) {
  std::vector<std::byte> content(bytes + kGuard, kUnset);
  std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(bytes), kGuard, kSentinel);
  stream.copy(buffer_.data(), content.data(), content.size());
  stream.synchronize();
}

bool GuardedMemory::intact(runtime::Stream& stream) const {
  std::vector<std::byte> guard(kGuard);
  stream.copy(guard.data(), buffer_.data() + bytes_, kGuard);
  stream.synchronize();
  return std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kSentinel; });
}

}  // namespace kerf::ops
