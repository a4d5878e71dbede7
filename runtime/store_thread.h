// The scheduler's store thread: does what workers of other hosts ask of the run's files.
//
// A disk may take seconds, in which whoever listens to the workers must answer their reports. So
// that one hands requests in and takes answers out, and this thread works through them in the order
// in which they came. What is held is bounded by the windows of the workers. A disk that never
// answers holds up whoever ends this, who tells so: left behind, the thread would write into files
// of the next epoch once it wakes.
//
// Owned by the crew, one for each epoch. Public functions are for whoever listens, one thread at a
// time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/store_desk.h"
#include "runtime/time.h"

namespace kerf::runtime {

class StoreThread {
 public:
  using Tell = std::function<void(const std::string&)>;
  static constexpr std::chrono::milliseconds kPatience{3'000};
  // `rules` outlive this; `answered` is called by the thread, when there are answers to take.
  // `tell`: whom the destructor tells, when it has waited for `patience` and then every minute,
  // which file it waits for; may be empty.
  StoreThread(const StoreRules& rules, int workers, std::function<void()> answered, Tell tell = {},
              std::chrono::milliseconds patience = kPatience);
  // What is under way ends, however long it takes; nothing of unfinished files is left.
  ~StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  // Bytes, that each worker may have asked for without an answer.
  int64_t window() const { return window_; }
  // A kStore. Throws Error{kProtocol} for what is none, or beyond the window.
  void take(int worker, std::string_view payload);
  // It left: its files are closed.
  void forget(int worker);

  struct Said {
    int worker = 0;
    StoreAnswer answer;
    int64_t cost = 0;                  // of the request
    std::optional<Error> breach = {};  // how the worker broke the protocol; no answer
  };
  // What was done since the last call, in order.
  std::vector<Said> answers();

 private:
  struct Asked {
    int worker = 0;
    std::optional<StoreRequest> request = {};  // empty: it left
    int64_t cost = 0;
  };
  void run(const std::stop_token& stop);
  void serve(Asked asked);
  void say(Said said);
  void begin(std::string what);
  void await_end();

  const StoreRules& rules_;
  const int64_t window_;
  const std::function<void()> answered_;
  const Tell tell_;
  const std::chrono::milliseconds patience_;
  struct Unanswered {
    int64_t cost = 0;
    int64_t requests = 0;
  };
  std::map<int, Unanswered> unanswered_;  // by worker

  std::mutex mutex_;  // guards the following
  std::condition_variable_any arrived_;
  std::deque<Asked> asked_;
  std::vector<Said> said_;
  std::string under_way_ = "what workers ask of files";  // what the thread is at, and
  Clock::time_point since_;
  bool ended_ = false;  // the thread has
  std::condition_variable end_;

  std::map<int, std::optional<StoreDesk>> desks_;  // the thread's; empty: it broke the protocol
  std::jthread thread_;
};

}  // namespace kerf::runtime
