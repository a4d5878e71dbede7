// What the async-test devices of one world know of order: the clocks of their streams and of the
// host's threads, all memory, and what was touched without being ordered.
//
// Everything is decided when work is enqueued, on the thread of the host that does so; when and in
// which order the work then runs changes nothing here. So the reports of a program whose host is
// one thread are always the same. Where several threads enqueue, it is the same bytes that
// conflicts are reported of, and the pairs named may differ (History forgets).
//
// Owned by an AsyncWorld, shared by its devices. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/async_history.h"

namespace kerf::tests {

using Pages = std::shared_ptr<std::byte>;

// An allocation: where programs believe it is, and where it is. For pinned memory the same.
struct AsyncBlock {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  size_t reserved = 0;  // bytes of addresses from `begin` that belong to it
  Pages addresses;      // kept as long as the world: no address has two owners
  Pages real;           // kept until it is freed and no work uses it
  bool pinned = false;
};

// Where work finds what it touches.
struct AsyncPlace {
  std::byte* real = nullptr;
  Pages kept;          // empty where the memory is nobody's but the host's
  bool usable = true;  // else it has been reported, and the work must not run
};

class AsyncOrder {
 public:
  // Of streams. Each is used by one thread of the host at a time, that which calls.
  Lane add_stream();
  void enqueue(Lane stream);  // a new operation, which the next calls are about
  AsyncPlace touch(Lane stream, std::byte* data, size_t bytes, bool written);
  void stream_waits(Lane stream, const Clock& recorded);
  Clock clock(Lane stream) const;

  // Of the thread that calls.
  size_t begin_wait();
  void end_wait(size_t wait, const Clock& recorded);
  void host_sees(const Clock& clock);
  Clock host_clock();
  size_t my_waits();
  void drop_my_wait(size_t wait);
  bool my_wait_was_needless(size_t wait);
  void host_touches(std::byte* data, size_t bytes, bool written);

  void add(AsyncBlock block);
  void free(std::byte* begin) noexcept;

  // Of all.
  std::vector<std::string> reports() const;
  size_t waits() const;
  void drop_wait(size_t wait);

 private:
  struct Actor {
    std::string name;
    Clock clock;
  };
  struct Owned {
    AsyncBlock block;
    size_t number = 0;
    bool freed = false;
    History history;
  };

  struct ThreadWaits {            // of a thread of the host
    std::vector<size_t> numbers;  // of its waits, among all
    std::set<size_t> dropped;     // of its own
  };

  Lane host();
  size_t number_wait();
  Lane add_actor(const char* kind, size_t number);
  Owned* find(std::byte* data);
  AsyncPlace touch_locked(Lane lane, std::byte* data, size_t bytes, bool written);
  // What lane does next comes after all that was recorded, unless the wait is dropped.
  void join(Lane lane, size_t wait, const Clock& recorded);
  std::string text(const Access& access) const;

  mutable std::mutex mutex_;  // guards all below
  std::deque<Actor> actors_;  // by lane
  size_t streams_ = 0;
  std::map<pid_t, Lane> hosts_;
  std::map<std::byte*, Owned> memory_;  // by its first byte
  size_t allocations_ = 0;
  size_t waits_ = 0;
  std::set<size_t> dropped_;
  std::set<size_t> needless_;
  std::map<Lane, ThreadWaits> waits_of_;  // by thread of the host
  std::vector<std::string> reports_;
};

}  // namespace kerf::tests
