#include "tests/conformance/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "runtime/error.h"

namespace kerf::ops {
namespace {

constexpr size_t kGuard = 256;
constexpr size_t kBlock = 64;  // of arenas and slots
constexpr std::byte kUnset{0xff};
constexpr std::byte kSentinel{0x5a};

size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void GuardedMemory::Unmap::operator()(std::byte* pages) const { munmap(pages, bytes); }

GuardedMemory::GuardedMemory(runtime::Device& device, runtime::Stream& stream, size_t bytes)
    : bytes_(bytes) {
  if (device.name() == "cpu") {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t blocks = rounded_up(bytes, kBlock);
    const size_t all = rounded_up(blocks, page) + page;
    void* pages = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    KERF_CHECK(pages != MAP_FAILED, "no {} bytes to guard", all);
    pages_ = {static_cast<std::byte*>(pages), Unmap{all}};
    std::byte* end = pages_.get() + all - page;
    KERF_CHECK(mprotect(end, page, PROT_NONE) == 0, "no page without access");
    guard_ = blocks - bytes;
    data_ = end - blocks;
  } else {
    guard_ = kGuard;
    buffer_ = device.allocate(bytes + kGuard);
    data_ = buffer_.data();
  }
  std::vector<std::byte> content(bytes + guard_, kUnset);
  std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(bytes), guard_, kSentinel);
  stream.copy(data_, content.data(), content.size());
  stream.synchronize();
}

bool GuardedMemory::intact(runtime::Stream& stream) const {
  std::vector<std::byte> guard(guard_);
  stream.copy(guard.data(), data_ + bytes_, guard_);
  stream.synchronize();
  return std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kSentinel; });
}

}  // namespace kerf::ops
