// Where inproc endpoints meet: a table of the channels that senders offer and receivers take.
//
// Shared by all endpoints of a run. Thread-safe.
#pragma once

#include <compare>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/inproc/inproc_pipe.h"

namespace kerf::runtime {

// Sender and receiver find each other only if they agree on all of this.
struct InprocMeeting {
  std::string sender;
  std::string receiver;
  uint32_t epoch = 0;
  uint64_t token = 0;
  auto operator<=>(const InprocMeeting&) const = default;
};

class InprocHub {
 public:
  std::string new_address(const std::string& label);

  // The sender offers, the receiver waits for the offer and takes it, the sender waits until it is
  // taken. Waiting ends early, with null or false, once `stop()` is true (see wake()) or the
  // deadline passed.
  void offer(const InprocMeeting& meeting, std::shared_ptr<InprocPipe> pipe);
  std::shared_ptr<InprocPipe> find(const InprocMeeting& meeting, Deadline deadline,
                                   const std::function<bool()>& stop);
  void take(const InprocMeeting& meeting);
  bool wait_taken(const InprocMeeting& meeting, Deadline deadline,
                  const std::function<bool()>& stop);
  // Forgets what `address` offered.
  void forget(const std::string& address);
  // Whoever waits looks at its `stop()` again.
  void wake();

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<InprocMeeting, std::shared_ptr<InprocPipe>> offers_;
  int addresses_ = 0;
};

}  // namespace kerf::runtime
