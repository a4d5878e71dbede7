#include "partitioner/in_parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kerf::partitioner {
namespace {

TEST(InParallel, DoesEachPieceOnce) {
  for (const size_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> done(count);
    in_parallel(count, [&](size_t i) { ++done[i]; });
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(done[i], 1) << i << " of " << count;
  }
}

TEST(InParallel, PiecesOfPiecesAreDoneOnNoMoreThreadsThanProcessors) {
  std::atomic<size_t> now = 0;
  std::atomic<size_t> most = 0;
  std::atomic<int> done = 0;
  in_parallel(8, [&](size_t) {
    in_parallel(8, [&](size_t) {
      const size_t at_once = ++now;
      for (size_t known = most; at_once > known;)
        if (most.compare_exchange_weak(known, at_once)) break;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      ++done;
      --now;
    });
  });
  EXPECT_EQ(done, 64);
  EXPECT_LE(most, std::max(1U, std::thread::hardware_concurrency()));
}

TEST(InParallel, TellsOfTheCallersOwnPiecesOnItsOwnThread) {
  const auto own = std::this_thread::get_id();
  std::mutex mutex;
  std::set<size_t> of_own, told;
  in_parallel(
      100,
      [&](size_t i) {
        const std::scoped_lock lock(mutex);
        if (std::this_thread::get_id() == own) of_own.insert(i);
      },
      [&](size_t i) {
        EXPECT_EQ(std::this_thread::get_id(), own);
        told.insert(i);
      });
  EXPECT_EQ(told, of_own);
}

TEST(InParallel, ThrowsWhatTheFirstOfThePiecesThrewAndCanBeUsedAgain) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::string caught;
    try {
      in_parallel(50, [](size_t i) {
        if (i >= 7) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    EXPECT_EQ(caught, "7");
  }
}

}  // namespace
}  // namespace kerf::partitioner
