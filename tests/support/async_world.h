// The world of the async-test devices of a test (async_device.h): what they share, and what the
// test asks of it.
//
//   const auto world = std::make_shared<AsyncWorld>(seed);
//   const auto device = make_async_device(world);
//   ... a program that orders all its work by streams and events ...
//   EXPECT_THAT(world->reports(), IsEmpty());
//
// A report is a line of text about two accesses to the same bytes, one of them a write, that
// nothing orders; or about memory freed while work may use it, used when it is freed, or too small
// for what is declared. It needs no bad luck: see async_order.h.
//
// What orders a and b: both are in one stream, a first. Or b was enqueued by a thread of the host
// that had enqueued nothing for it but had waited for a (Event::wait(), Event::ready() that said
// true, Stream::synchronize() or the end of the stream). Or b's stream waited for an event that was
// recorded behind a. Or any chain of those. A thread of the host comes after nothing else: what
// another one has seen it knows by events, or if it is told by see().
//
// Owned by the test and the devices together. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/async_order.h"

namespace kerf::tests {

// Makes streams late, but for no longer than a test can bear. A seed, and chance in the kernel's
// scheduling, decide which.
class AsyncDelays {
 public:
  // While there is one, a thread of the host waits, and nothing is held back for it any more.
  class Impatience {
   public:
    explicit Impatience(AsyncDelays& delays);
    ~Impatience();
    Impatience(const Impatience&) = delete;
    Impatience& operator=(const Impatience&) = delete;

   private:
    AsyncDelays& delays_;
  };

  explicit AsyncDelays(std::optional<uint64_t> seed) : seed_(seed) {}
  std::mt19937_64 random(uint64_t stream) const;
  // By a stream's thread, before what it does next. Sleeps: not at all, for up to 0.1 ms, or until
  // a thread of the host waits, 2 ms at the most.
  void delay(std::mt19937_64& random);

 private:
  const std::optional<uint64_t> seed_;
  std::mutex mutex_;
  std::condition_variable waits_;
  int waiting_ = 0;
};

class AsyncWorld {
 public:
  // No seed: streams are as late as threads are, for suites that wait for each thing they do.
  explicit AsyncWorld(std::optional<uint64_t> seed) : delays_(seed) {}

  // In the order in which they were found.
  std::vector<std::string> reports() const { return order_.reports(); }

  // Calls so far of Stream::wait(), Event::wait() and Stream::synchronize(); ready() is none.
  size_t waits() const { return order_.waits(); }
  // The call that would be number `wait` (from 0) orders nothing. Work is done as if it did, so
  // that results stay defined and the program ends: only the reports miss it. So each wait of a
  // program is either needed, and reported when dropped, or needless. Of a host's wait this takes
  // that the host's own accesses are declared, below.
  void drop_wait(size_t wait) { order_.drop_wait(wait); }
  // The same by the calls of the thread that calls, whatever others do meanwhile; and whether such
  // a call came after all that it waited for anyhow, by what had been waited for before.
  size_t my_waits() { return order_.my_waits(); }
  void drop_my_wait(size_t wait) { order_.drop_my_wait(wait); }
  bool my_wait_was_needless(size_t wait) { return order_.my_wait_was_needless(wait); }

  // The thread that calls touches pinned memory by itself. Other memory is not looked at.
  void host_reads(const void* data, size_t bytes) { touch(data, bytes, false); }
  void host_writes(const void* data, size_t bytes) { touch(data, bytes, true); }

  // What the thread that calls has done and seen, for another to take over: across the start and
  // the end of a thread, or with a message that tells that work is done.
  Clock seen() { return order_.host_clock(); }
  void see(const Clock& clock) { order_.host_sees(clock); }

  // For the devices.
  AsyncOrder& order() { return order_; }
  AsyncDelays& delays() { return delays_; }

 private:
  void touch(const void* data, size_t bytes, bool written);

  AsyncOrder order_;
  AsyncDelays delays_;
};

}  // namespace kerf::tests
