// Who of a crew is still there: what is known of each worker, and the text that tells a loss.
//
// Owned by the crew; plain data and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/messages.h"
#include "runtime/process.h"

namespace kerf::runtime {

struct Member {
  enum class State { kAbsent, kJoined, kAddressed, kStarted, kReady, kLeft };

  State state = State::kAbsent;
  WorkerInfo info;
  Mended mended;  // by this very worker, as it told last, which info does not have
  int peer = -1;  // at the control server
  Reach reach;
  std::vector<TransportKind> transports;  // of its endpoint
  Addresses addresses;
  std::optional<Process> process;
  std::optional<std::string> process_end;
  Clock::time_point ended_at;
  Origin origin;
  std::optional<Clock::time_point> broken_at;    // its connection
  std::optional<Clock::time_point> replaced_at;  // when its keeper had started another
  Clock::time_point heard;
  Clock::time_point reported;
  Clock::time_point progressed;  // finished or began something, or got work while idle
  Clock::time_point task_since;  // the oldest task that it owes a result of can have begun
  std::optional<Error> failure;  // what it said that ended it
  std::optional<Clock::time_point> failed_at;  // with `failure`
};

struct Loss {
  int worker = 0;
  std::string how;            // "signal 9 (Killed)", "silent for 3.0 s"
  bool gone = false;          // another may take its place; else it hangs, as another would
  Clock::time_point since{};  // when it was gone
};

// The time of this process stood still by `by`: nobody is older for it.
void forgive(std::vector<Member>& members, Clock::duration by);

// Whether it has ended or its connection broke, and too little time has passed to say why.
bool may_be_lost(const Member& member, Clock::time_point now);

// The loss at `now` that happened first. A worker that left in order or said why it failed is not
// lost, unless that is the loss of its device; nor is one that waits for another, unless all that
// owe something wait.
std::optional<Loss> find_loss(const std::vector<Member>& members, const CrewOptions& options,
                              Clock::time_point now);

// "worker 1 (pid 4711)".
std::string name_of(const Member& member);
// "waits 1.2 s for fc1.output of micro-batch 3 from worker 1, while doing step 4: 0B2".
std::string doing_of(const Member& member, Clock::time_point now);
// Who failed first by its own word; null: nobody.
const Member* first_failed(const std::vector<Member>& members);

// What everybody but `except` does and awaits, or how its device failed, a line each.
std::string others_of(const std::vector<Member>& members, int except, Clock::time_point now);
// The Error{kLost} that names the worker, how it ended, what it did, and who waited for what.
Error loss_error(const std::vector<Member>& members, const Loss& loss, Clock::time_point now);

}  // namespace kerf::runtime
