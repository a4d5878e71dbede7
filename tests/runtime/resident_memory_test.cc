// Physical memory of a process: what is touched counts, what is only promised does not.
#include "runtime/resident_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kerf::runtime {
namespace {

constexpr int64_t kBytes = int64_t{32} << 20;
constexpr int64_t kSlack = int64_t{4} << 20;  // of counts that threads keep for a while

class Mapping {
 public:
  explicit Mapping(int flags)
      : data_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0)) {}
  ~Mapping() { munmap(data_, kBytes); }
  Mapping(const Mapping&) = delete;
  // Unseen by ThreadSanitizer, which remembers each byte in memory of its own.
  [[gnu::no_sanitize("thread")]] void touch() {
    constexpr int64_t kPage = 4096;
    auto* bytes = static_cast<volatile std::byte*>(data_);
    for (int64_t i = 0; i < kBytes; i += kPage) bytes[i] = std::byte{1};
  }

 private:
  void* data_;
};

TEST(ResidentMemory, CountsWhatWasTouched) {
  const ResidentMemory before = resident_memory();
  EXPECT_GT(before.anonymous, 0);
  Mapping promised(MAP_PRIVATE);
  EXPECT_LT(resident_memory().anonymous - before.anonymous, kSlack);
  promised.touch();
  EXPECT_GE(resident_memory().anonymous - before.anonymous, kBytes - kSlack);
}

TEST(ResidentMemory, CountsSharedMemoryApart) {
  const ResidentMemory before = resident_memory();
  Mapping shared(MAP_SHARED);
  shared.touch();
  const ResidentMemory after = resident_memory();
  EXPECT_GE(after.shared - before.shared, kBytes - kSlack);
  EXPECT_LT(after.anonymous - before.anonymous, kSlack);
}

// Sanitizers have heaps of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ResidentMemory, OfWhatWasFreedGoesBack) {
  std::vector<std::unique_ptr<std::array<std::byte, 1024>>> blocks(kBytes / 1024);
  for (auto& block : blocks) block = std::make_unique<std::array<std::byte, 1024>>();
  const auto behind_them = std::make_unique<std::array<std::byte, 1024>>();
  const int64_t before = resident_memory().anonymous;
  blocks.clear();
  give_freed_memory_back();
  EXPECT_LT(resident_memory().anonymous, before - kBytes + kSlack);
}
#endif

}  // namespace
}  // namespace kerf::runtime
