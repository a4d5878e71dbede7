#include "runtime/link/packet_wait.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

// What ppoll() wants: a device is looked at more often than poll()'s milliseconds allow.
timespec time_left(Deadline deadline) {
  constexpr int64_t kSecond = 1'000'000'000;
  constexpr std::chrono::nanoseconds kDay = std::chrono::hours(24);
  const Clock::time_point now = Clock::now();
  if (deadline <= now) return {};
  const int64_t left = std::min(kDay, std::chrono::nanoseconds(deadline - now)).count();
  return {left / kSecond, left % kSecond};
}

}  // namespace

void PacketWait::until_readable(int descriptor, Deadline deadline) {
  std::array<pollfd, 3> items{{{descriptor, POLLIN, 0},
                               {event_.descriptor(), POLLIN, 0},
                               {woken_.descriptor(), POLLIN, 0}}};
  const timespec left = time_left(deadline);
  ::ppoll(items.data(), items.size(), &left, nullptr);
  if (items[2].revents != 0) (void)woken_.taken();
}

void PacketWait::interrupt() {
  interrupted_ = true;
  event_.signal();  // and never read: every later wait ends at once
}

void PacketWait::check(const std::string& label) const {
  if (is_interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted", label);
}

}  // namespace kerf::runtime
