#include "partitioner/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kerf::partitioner {
namespace {

// Threads that help others, of all calls together. With the one that plans there are as many as
// there are processors.
std::atomic<size_t> helpers = 0;

bool may_have_helper() {
  const size_t most = std::max(1U, std::thread::hardware_concurrency()) - 1;
  for (size_t now = helpers; now < most;)
    if (helpers.compare_exchange_weak(now, now + 1)) return true;
  return false;
}

class Pieces {
 public:
  Pieces(size_t count, const std::function<void(size_t)>& work) : count_(count), work_(work) {}

  void go(const std::function<void(size_t)>& told) {
    for (size_t i = next_++; i < count_; i = next_++) {
      try {
        if (told) told(i);
        work_(i);
      } catch (...) {
        fail(i);
      }
    }
  }

  void rethrow() const {
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  void fail(size_t i) {
    const std::scoped_lock lock(mutex_);
    if (!fault_ || i < failed_) {
      fault_ = std::current_exception();
      failed_ = i;
    }
    next_ = count_;
  }

  const size_t count_;
  const std::function<void(size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr fault_;
  size_t failed_ = 0;
};

}  // namespace

void in_parallel(size_t count, const std::function<void(size_t)>& work,
                 const std::function<void(size_t)>& told) {
  Pieces pieces(count, work);
  {
    std::vector<std::jthread> threads;
    while (threads.size() + 1 < count && may_have_helper())
      threads.emplace_back([&] {
        pieces.go({});
        --helpers;
      });
    pieces.go(told);
  }
  pieces.rethrow();
}

}  // namespace kerf::partitioner
