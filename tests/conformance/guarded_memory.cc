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

size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

std::byte* GuardedPages::take(size_t bytes) {
  const size_t whole = rounded_up(bytes, page());
  if (const auto found = free_.find(whole); found != free_.end()) {
    std::byte* end = found->second;
    free_.erase(found);
    return end;
  }
  void* pages =
      mmap(nullptr, whole + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KERF_CHECK(pages != MAP_FAILED, "no {} bytes to guard", whole);
  std::byte* end = static_cast<std::byte*>(pages) + whole;
  KERF_CHECK(mprotect(end, page(), PROT_NONE) == 0, "no page without access");
  mapped_.emplace(end, whole);
  std::fill(end - whole, end, kUnset);
  return end;
}

void GuardedPages::give_back(std::byte* end) {
  const size_t whole = mapped_.at(end);
  std::fill(end - whole, end, kUnset);
  free_.emplace(whole, end);
}

GuardedPages::~GuardedPages() {
  for (const auto& [end, whole] : mapped_) munmap(end - whole, whole + page());
}

GuardedMemory::GuardedMemory(runtime::Device& device, runtime::Stream& stream, GuardedPages& pages,
                             size_t bytes)
    : GuardedMemory(device, stream, pages, std::vector<std::byte>(bytes, kUnset)) {}

GuardedMemory::GuardedMemory(runtime::Device& device, runtime::Stream& stream, GuardedPages& pages,
                             std::vector<std::byte> content)
    : bytes_(content.size()), filled_(std::move(content)) {
  if (device.name() == "cpu") {
    const size_t blocks = rounded_up(bytes_, kBlock);
    end_ = {pages.take(blocks), GiveBack{&pages}};
    guard_ = blocks - bytes_;
    data_ = end_.get() - blocks;
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
