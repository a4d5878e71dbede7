#include "tests/support/cuda_on_host/gpu_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#define KERF_CANARIES 1  // else whoever strays dies at once
#endif

namespace kerf::tests {
namespace {

constexpr size_t kUnit = 256;
// Opening and closing takes time for every page that was touched: hence large ones, which stay
// whole as long as nobody opens, closes or gives back a part of one.
constexpr size_t kPage = size_t{2} << 20U;
constexpr size_t kMostFilled = size_t{1} << 20U;
constexpr auto kCanary = std::byte{0xc5};

size_t units_of(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit + kUnit; }

// The beginning of the page that it lies in, and of the first page from there on.
std::byte* page_of(std::byte* at) { return at - reinterpret_cast<uintptr_t>(at) % kPage; }
std::byte* next_page(std::byte* at) { return page_of(at + kPage - 1); }

// Gives back the pages that a free block has to itself.
void drop_pages(std::byte* data, size_t bytes) {
  std::byte* const begin = next_page(data);
  std::byte* const end = page_of(data + bytes);
  if (begin < end) madvise(begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
}

void plant_canaries([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::byte* end) {
#ifdef KERF_CANARIES
  std::fill(begin, end, kCanary);
#endif
}

void look_at_canaries([[maybe_unused]] const std::byte* begin,
                      [[maybe_unused]] const std::byte* end, [[maybe_unused]] size_t bytes) {
#ifdef KERF_CANARIES
  const std::byte* wrong = std::find_if(begin, end, [](std::byte b) { return b != kCanary; });
  if (wrong == end) return;
  std::fprintf(stderr, "played GPU: byte %td behind an allocation of %zu bytes was written to\n",
               wrong - begin, bytes);
  std::abort();
#endif
}

}  // namespace

GpuMemory::GpuMemory(int devices, size_t bytes) : devices_(devices), per_device_(bytes) {
  if (per_device_ % kPage != 0) throw std::invalid_argument("a played GPU has whole pages");
  const size_t all = per_device_ * static_cast<size_t>(devices_);
  mapped_ =
      mmap(nullptr, all + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped_ == MAP_FAILED) throw std::runtime_error("no addresses for the played GPUs");
  base_ = next_page(static_cast<std::byte*>(mapped_));
  madvise(base_, all, MADV_HUGEPAGE);  // where there are none all is slower, and the same
  ASAN_POISON_MEMORY_REGION(base_, all);
}

GpuMemory::~GpuMemory() {
  const size_t all = per_device_ * static_cast<size_t>(devices_);
  ASAN_UNPOISON_MEMORY_REGION(base_, all);
  munmap(mapped_, all + kPage);
}

// Its pages alone.
template <class Act>
void GpuMemory::look_into(std::byte* begin, std::byte* end, const Act& act) const {
  const bool closed = !is_open(device_of(begin));
  std::byte* const first = page_of(begin);
  const auto bytes = static_cast<size_t>(next_page(end) - first);
  if (closed) mprotect(first, bytes, PROT_READ | PROT_WRITE);
  act();
  if (closed) mprotect(first, bytes, PROT_NONE);
}

// At least one unit is left free behind each; whole pages lie in whole pages.
std::byte* GpuMemory::find_room(int device, size_t bytes) const {
  const size_t units = units_of(bytes);
  const auto aligned = [whole = bytes % kPage == 0](std::byte* at) {
    return whole ? next_page(at) : at;
  };
  std::byte* at = begin_of(device);
  std::byte* const end = at + per_device_;
  auto next = used_.lower_bound(at);
  while (next != used_.end() && next->first < end && next->first < at + units) {
    at = aligned(next->first + next->second.units);
    ++next;
  }
  return at + units > end ? nullptr : at;
}

void* GpuMemory::allocate(int device, size_t bytes) {
  if (bytes == 0 || bytes > per_device_) return nullptr;
  const size_t units = units_of(bytes);
  std::byte* const at = find_room(device, bytes);
  if (at == nullptr) return nullptr;
  used_[at] = {bytes, units};
  ASAN_UNPOISON_MEMORY_REGION(at, bytes);
  look_into(at, at + units, [&] {
    std::memset(at, 0xff, std::min(bytes, kMostFilled));
    plant_canaries(at + bytes, at + units);
  });
  return at;
}

bool GpuMemory::free(void* data) {
  const auto found = used_.find(static_cast<std::byte*>(data));
  if (found == used_.end() || found->second.other) return false;
  std::byte* const at = found->first;
  const Block block = found->second;
  std::byte* const behind = at + block.bytes;
  std::byte* const end = at + block.units;
  look_into(behind, end, [&] { look_at_canaries(behind, end, block.bytes); });
  ASAN_POISON_MEMORY_REGION(at, block.units);
  if (block.file >= 0) {
    if (!map_own(at, block.bytes)) return false;
    ::close(block.file);
  } else {
    drop_pages(at, block.units);
  }
  used_.erase(found);
  return true;
}

bool GpuMemory::map_file(std::byte* at, size_t bytes, int file) const {
  const int protection = is_open(device_of(at)) ? PROT_READ | PROT_WRITE : PROT_NONE;
  return mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
}

bool GpuMemory::map_own(std::byte* at, size_t bytes) const {
  const int protection = is_open(device_of(at)) ? PROT_READ | PROT_WRITE : PROT_NONE;
  constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(at, bytes, protection, kOwn, -1, 0) == MAP_FAILED) return false;
  madvise(at, bytes, MADV_HUGEPAGE);
  return true;
}

int GpuMemory::share(void* data) {
  const auto found = used_.find(static_cast<std::byte*>(data));
  if (found == used_.end() || found->second.other) return -1;
  auto& [at, block] = *found;
  if (block.bytes % kPage != 0 || block.file >= 0) return block.file;
  const int file = memfd_create("played GPU memory", MFD_CLOEXEC);
  bool moved = file >= 0 && ftruncate(file, static_cast<off_t>(block.bytes)) == 0;
  look_into(at, at + block.bytes, [&, from = at, bytes = block.bytes] {
    for (size_t done = 0; moved && done < bytes;) {
      const ssize_t count = pwrite(file, from + done, bytes - done, static_cast<off_t>(done));
      moved = count > 0;
      if (moved) done += static_cast<size_t>(count);
    }
  });
  if (moved && map_file(at, block.bytes, file)) return block.file = file;
  if (file >= 0) ::close(file);
  return -1;
}

void* GpuMemory::open_shared(int device, int file, size_t bytes) {
  if (file < 0 || bytes == 0 || bytes % kPage != 0) return nullptr;
  std::byte* const at = find_room(device, bytes);
  if (at == nullptr || !map_file(at, bytes, file)) return nullptr;
  used_[at] = {bytes, units_of(bytes), -1, true};
  ASAN_UNPOISON_MEMORY_REGION(at, bytes);
  return at;
}

bool GpuMemory::close_shared(void* data) {
  const auto found = used_.find(static_cast<std::byte*>(data));
  if (found == used_.end() || !found->second.other) return false;
  const auto& [at, block] = *found;
  ASAN_POISON_MEMORY_REGION(at, block.units);
  if (!map_own(at, block.bytes)) return false;
  used_.erase(found);
  return true;
}

int GpuMemory::device_of(const void* data) const {
  const auto* at = static_cast<const std::byte*>(data);
  if (at < base_ || at >= base_ + per_device_ * static_cast<size_t>(devices_)) return -1;
  return static_cast<int>(static_cast<size_t>(at - base_) / per_device_);
}

bool GpuMemory::is_allocated(const void* data, size_t bytes) const {
  auto* at = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  auto after = used_.upper_bound(at);
  if (after == used_.begin()) return false;
  const auto& [begin, block] = *--after;
  const auto offset = static_cast<size_t>(at - begin);
  return offset <= block.bytes && bytes <= block.bytes - offset;
}

void GpuMemory::open_for(int device) {
  if (device == open_) return;
  const int before = std::exchange(open_, device);
  for (int i = 0; i < devices_; ++i) {
    const bool was_open = before == kEverybody || before == i;
    if (is_open(i) != was_open)
      mprotect(begin_of(i), per_device_, is_open(i) ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

}  // namespace kerf::tests
