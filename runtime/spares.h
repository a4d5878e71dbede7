// Who registered and has no place in the run yet: spares, and for a second whoever comes too early
// for the loss whose place it is to take, or too late.
//
// Owned by the roster, and guarded with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/control.h"
#include "runtime/messages.h"

namespace kerf::runtime {

class Spares {
 public:
  // Who was not heard of for `silence` is forgotten.
  Spares(ControlServer& server, std::chrono::milliseconds silence)
      : server_(server), silence_(silence) {}

  // Is told that it waits.
  void add(int peer, Registration registration);
  // Whether the message is of one of them. One that leaves, or says what does not belong, waits no
  // more.
  bool hear(const ControlServer::Incoming& incoming);
  // In the order in which they came; whom `place` has a place for waits no more.
  void place(const std::function<bool(int peer, const Registration& registration)>& place);
  // Those that have waited for a second, and of which `why`, asked in order of all, is not empty.
  void refuse(const std::function<std::string(const Registration& registration)>& why);
  std::vector<int> peers() const;  // whose connection is there
  // The time of this process stood still by `by`: nobody has been silent for it.
  void forgive(Clock::duration by);

 private:
  struct Spare {
    int peer = 0;
    Registration registration;
    Clock::time_point since;
    Clock::time_point heard;
    bool broken = false;  // its connection
  };

  ControlServer& server_;
  const std::chrono::milliseconds silence_;
  std::vector<Spare> spares_;
};

}  // namespace kerf::runtime
