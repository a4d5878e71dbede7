// Tells why connections were refused, each reason at most once a second and with how often it came
// meanwhile: whoever is refused tries again ten times a second, and there may be many of them.
//
// Threads: add() is anybody's and waits for nobody. The notes are told by a thread of the log's
// own, because telling may take as long as whoever reads them likes. A note that cannot be told is
// lost, and the next one is tried.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/time.h"

namespace kerf::runtime {

enum class Refusal { kNoKey, kOtherScheduler, kUnknownKey, kLeft, kNoWorker, kNoWorkerOfThisRun };

class RefusalLog {
 public:
  using Notice = std::function<void(const std::string&)>;
  explicit RefusalLog(Notice notice);
  // Tells of those that nobody was told of yet.
  ~RefusalLog() = default;
  RefusalLog(const RefusalLog&) = delete;
  RefusalLog& operator=(const RefusalLog&) = delete;

  // `from`: the host, where that is known.
  void add(Refusal reason, const std::string& from);

 private:
  struct Untold {
    int64_t count = 0;
    std::string from;  // the last
    Clock::time_point due{};
  };
  using Due = std::map<Refusal, Untold>::iterator;
  void tell_all(const std::stop_token& stop);
  Due next_due();
  void tell(Refusal reason, const Untold& untold) const;

  const Notice notice_;
  std::mutex mutex_;
  std::condition_variable_any news_;
  std::map<Refusal, Untold> untold_;
  std::jthread thread_;  // the last: it uses all the others
};

}  // namespace kerf::runtime
