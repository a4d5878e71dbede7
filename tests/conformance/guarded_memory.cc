#include "tests/conformance/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace kerf::ops {
namespace {

constexpr size_t kGuard = 256;
constexpr size_t kBlock = 64;  // of arenas and slots, which begin at any multiple of it
constexpr std::byte kUnset{0xff};
constexpr std::byte kSentinel{0x5a};

size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void GuardedMemory::Unmap::operator()(std::byte* pages) const { munmap(pages, bytes); }

GuardedMemory::GuardedMemory(runtime::Device& device, runtime::Stream& stream, size_t bytes)
    : GuardedMemory(device, stream, std::vector<std::byte>(bytes, kUnset)) {}

GuardedMemory::GuardedMemory(runtime::Device& device, runtime::Stream& stream,
                             std::vector<std::byte> content)
    : bytes_(content.size()), filled_(std::move(content)) {
  if (device.name() == "cpu") {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t blocks = rounded_up(bytes_, kBlock);
    const size_t all = rounded_up(blocks, page) + page;
    void* pages = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    KERF_CHECK(pages != MAP_FAILED, "no {} bytes to guard", all);
    pages_ = {static_cast<std::byte*>(pages), Unmap{all}};
    std::byte* end = pages_.get() + all - page;
    KERF_CHECK(mprotect(end, page, PROT_NONE) == 0, "no page without access");
    guard_ = blocks - bytes_;
    data_ = end - blocks;
  } else {
    guard_ = kGuard;
    buffer_ = device.allocate(kBlock + bytes_ + kGuard);
    data_ = buffer_.data() + kBlock;  // allocations of GPUs begin at multiples of more
  }
  filled_.resize(bytes_ + guard_, kSentinel);
  seen_.resize(filled_.size());
  stream.copy(data_, filled_.data(), filled_.size());
}

void GuardedMemory::look(runtime::Stream& stream) {
  stream.copy(seen_.data(), data_, seen_.size());
}

void GuardedMemory::look_at_guard(runtime::Stream& stream) {
  stream.copy(seen_.data() + bytes_, data_ + bytes_, guard_);
}

bool GuardedMemory::intact() const {
  return std::equal(seen_.begin() + static_cast<std::ptrdiff_t>(bytes_), seen_.end(),
                    filled_.begin() + static_cast<std::ptrdiff_t>(bytes_));
}

}  // namespace kerf::ops
