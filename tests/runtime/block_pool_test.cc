#include "runtime/cpu/block_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>

namespace kerf::runtime {
namespace {

TEST(BlockPool, GivesTheSameBlockAgain) {
  BlockPool pool;
  void* block = pool.take(100'000);
  pool.give(block, 100'000);
  EXPECT_GE(pool.kept(), 100'000u);
  EXPECT_EQ(pool.take(100'000), block);
  EXPECT_EQ(pool.kept(), 0u);
  pool.give(block, 100'000);
}

TEST(BlockPool, WastesAtMostAnEighthOfABlock) {
  BlockPool pool;
  for (size_t bytes = 1; bytes < (size_t{1} << 30); bytes = bytes * 17 / 16 + 1) {
    const size_t before = pool.kept();
    void* block = pool.take(bytes);
    ASSERT_NE(block, nullptr);
    const size_t rest = std::min(before, pool.kept());
    pool.give(block, bytes);
    const size_t block_bytes = pool.kept() - rest;
    ASSERT_GE(block_bytes, bytes);
    ASSERT_LE(block_bytes, bytes + bytes / 7 + BlockPool::kAlignment) << bytes;
  }
}

TEST(BlockPool, KeepsNoMoreThanTheLargestUseAndItsSlack) {
  BlockPool pool;
  constexpr size_t kBytes = size_t{1} << 20;
  size_t most = 0;
  for (size_t size = kBytes; size < 64 * kBytes; size += kBytes) {
    void* block = pool.take(size);
    ASSERT_NE(block, nullptr);
    pool.give(block, size);
    most = std::max(most, size + size / 7 + 64);
    ASSERT_LE(pool.kept(), most + BlockPool::kSlackBytes);
  }
}

TEST(BlockPool, HasNothingForTheImpossible) {
  BlockPool pool;
  EXPECT_EQ(pool.take(size_t{1} << 60), nullptr);
  EXPECT_EQ(pool.take(~size_t{0}), nullptr);
  EXPECT_EQ(pool.take(size_t{1} << 50), nullptr);
}

TEST(BlockPool, NeverGivesOneByteTwice) {
  BlockPool pool;
  std::mt19937_64 random(5);
  std::map<std::byte*, size_t> taken;
  for (int i = 0; i < 20'000; ++i) {
    if (taken.size() < 50 && random() % 2 == 0) {
      const size_t bytes = 1 + random() % (random() % 8 == 0 ? 1'000'000 : 2'000);
      auto* block = static_cast<std::byte*>(pool.take(bytes));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % BlockPool::kAlignment, 0u);
      const auto next = taken.lower_bound(block);
      ASSERT_TRUE(next == taken.end() || block + bytes <= next->first);
      ASSERT_TRUE(next == taken.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= block);
      std::memset(block, 1, bytes);
      taken[block] = bytes;
    } else if (!taken.empty()) {
      auto victim = taken.lower_bound(std::next(taken.begin(), random() % taken.size())->first);
      pool.give(victim->first, victim->second);
      taken.erase(victim);
    }
  }
  for (const auto& [block, bytes] : taken) pool.give(block, bytes);
}

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST(BlockPool, CostsNoPageFaultsOnceWarm) {
  BlockPool pool;
  constexpr size_t kBytes = size_t{48} << 20;
  const auto round = [&] {
    void* block = pool.take(kBytes);
    std::memset(block, 1, kBytes);
    pool.give(block, kBytes);
  };
  round();
  const long before = page_faults();
  for (int i = 0; i < 10; ++i) round();
  EXPECT_LT(page_faults() - before, 100);  // anew, 48 MiB cost some 12,000 each time
}

// What /proc/self/smaps tells of the mapping that a byte lies in: "rd wr mr mw me ac hg".
std::string flags_of_mapping(const std::byte* byte) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(byte);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> begin >> dash >> end && dash == '-')
      here = begin <= address && address < end;
    if (here && line.starts_with("VmFlags:")) return line.substr(8) + ' ';
  }
  return {};
}

TEST(BlockPool, AsksForHugePagesUnderLargeBlocks) {
  constexpr size_t kHugePage = size_t{2} << 20;
  constexpr size_t kBytes = 9 * kHugePage + 4'096;
  BlockPool pool;
  auto* block = static_cast<std::byte*>(pool.take(kBytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kHugePage, 0u);
  std::memset(block, 1, kBytes);
  const bool known = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
  for (size_t page = 0; known && page < 9; ++page) {
    EXPECT_NE(flags_of_mapping(block + page * kHugePage).find(" hg "), std::string::npos) << page;
  }
  pool.give(block, kBytes);
}

}  // namespace
}  // namespace kerf::runtime
