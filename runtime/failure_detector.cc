#include "runtime/failure_detector.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

// A worker's last words may still be in the socket when the kernel tells of its end.
constexpr auto kLastWords = 50ms;
constexpr auto kReconnect = 400ms;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Another process may have the device again; what is gone is this one's.
bool has_lost_device(const Member& member) {
  return member.failure && member.failure->code() == ErrorCode::kDeviceLost;
}

struct Lost {
  Clock::time_point since;
  std::string how;
};

// How and since when `member` is lost, if it is.
std::optional<Lost> lost(const Member& member, const CrewOptions& options, Clock::time_point now) {
  if (member.state == Member::State::kLeft) return {};
  if (has_lost_device(member))
    return Lost{*member.failed_at, kerf::format("its device failed: {}", member.failure->what())};
  if (member.failure) return {};
  if (member.process_end && now >= member.ended_at + kLastWords)
    return Lost{member.ended_at, *member.process_end};
  if (member.state == Member::State::kAbsent) return {};
  if (member.replaced_at)
    return Lost{*member.replaced_at, "it died, and its keeper has started another"};
  if (member.broken_at && now >= *member.broken_at + kReconnect)
    return Lost{*member.broken_at, "its connection broke"};
  if (now >= member.heard + options.silence)
    return Lost{member.heard, kerf::format("silent for {:.1f} s", seconds(now - member.heard))};
  return {};
}

std::optional<Loss> first_lost(const std::vector<Member>& members, const CrewOptions& options,
                               Clock::time_point now) {
  std::optional<Loss> first;
  auto since = Clock::time_point::max();
  for (const auto& member : members)
    if (auto found = lost(member, options, now); found && found->since < since) {
      since = found->since;
      first = Loss{member.info.worker, std::move(found->how), true, since};
    }
  return first;
}

// What the crew waits for: its address, that it is ready, results. What it says of itself does not
// matter.
bool owes(const Member& member) {
  if (member.failure) return false;
  return member.state == Member::State::kJoined || member.state == Member::State::kStarted ||
         (member.state == Member::State::kReady && member.info.outstanding > 0);
}

bool waits(const Member& member) { return !member.info.activity.awaits.empty(); }

// Who waits is held up by somebody else: only who computes can stand still by itself.
const Member* find_stuck(const std::vector<Member>& members, Clock::time_point since) {
  for (const auto& member : members)
    if (owes(member) && !waits(member) && member.progressed <= since) return &member;
  return nullptr;
}

// Whether those who wait do so for each other alone: no device is at work, and nobody waits for a
// worker that has yet to be given something.
bool wait_for_each_other(const std::vector<Member>& members) {
  for (const auto& member : members) {
    if (!owes(member)) continue;
    const auto awaited = static_cast<size_t>(member.info.activity.awaited);
    if (!member.info.activity.device.empty() || awaited >= members.size() ||
        !owes(members[awaited]))
      return false;
  }
  return true;
}

// When everybody at work waits and nothing has happened anywhere: who has waited longest.
const Member* find_deadlocked(const std::vector<Member>& members, const CrewOptions& options,
                              Clock::time_point now) {
  const auto since = now - (wait_for_each_other(members) ? options.deadlock : options.no_progress);
  const Member* longest = nullptr;
  for (const auto& member : members) {
    if (member.progressed > since || (owes(member) && !waits(member))) return nullptr;
    if (owes(member) && (longest == nullptr || member.progressed < longest->progressed))
      longest = &member;
  }
  return longest;
}

const Member* find_endless(const std::vector<Member>& members, Clock::time_point since) {
  for (const auto& member : members)
    if (owes(member) && member.info.outstanding > 0 && member.task_since <= since) return &member;
  return nullptr;
}

}  // namespace

void forgive(std::vector<Member>& members, Clock::duration by) {
  for (auto& member : members) {
    for (auto* time : {&member.ended_at, &member.heard, &member.reported, &member.progressed,
                       &member.task_since})
      *time += by;
    for (auto* time : {&member.broken_at, &member.replaced_at, &member.failed_at})
      if (*time) **time += by;
  }
}

bool may_be_lost(const Member& member, Clock::time_point now) {
  return (member.process_end && now < member.ended_at + kLastWords) ||
         (member.broken_at && now < *member.broken_at + kReconnect);
}

std::optional<Loss> find_loss(const std::vector<Member>& members, const CrewOptions& options,
                              Clock::time_point now) {
  if (auto loss = first_lost(members, options, now)) return loss;
  const auto since = now - options.no_progress;
  if (const Member* stuck = find_stuck(members, since))
    return Loss{stuck->info.worker,
                kerf::format("no progress for {:.1f} s", seconds(now - stuck->progressed))};
  if (const Member* waiting = find_deadlocked(members, options, now))
    return Loss{waiting->info.worker,
                kerf::format("no progress for {:.1f} s: everybody who is at work waits",
                             seconds(now - waiting->progressed))};
  if (const Member* endless = find_endless(members, now - options.task_limit))
    return Loss{endless->info.worker,
                kerf::format("one task has taken {:.1f} s", seconds(now - endless->task_since))};
  return {};
}

const Member* first_failed(const std::vector<Member>& members) {
  const Member* first = nullptr;
  for (const auto& member : members) {
    if (!member.failure) continue;
    KERF_CHECK(member.failed_at, "{} failed, and nobody noted when", name_of(member));
    if (first == nullptr || *member.failed_at < *first->failed_at) first = &member;
  }
  return first;
}

std::string name_of(const Member& member) {
  if (member.info.pid == 0) return kerf::format("worker {}", member.info.worker);
  return kerf::format("worker {} (pid {})", member.info.worker, member.info.pid);
}

std::string doing_of(const Member& member, Clock::time_point now) {
  if (member.state == Member::State::kAbsent) return "has not registered yet";
  if (member.state == Member::State::kLeft) return "has left";
  if (member.failure && !has_lost_device(member))
    return kerf::format("failed: {}", member.failure->message());
  const auto& activity = member.info.activity;
  const double since =
      static_cast<double>(activity.since_ns) / 1e9 + seconds(now - member.reported);
  const std::string& doing = activity.doing;
  const std::string device =
      activity.device.empty() ? "" : kerf::format("; its device is at {}", activity.device);
  if (!activity.awaits.empty()) {
    std::string text = kerf::format("waits {:.1f} s for {}", since, activity.awaits);
    if (activity.awaited >= 0) text += kerf::format(" from worker {}", activity.awaited);
    if (!doing.empty()) text += kerf::format(", while doing {}", doing);
    return text + device;
  }
  if (!doing.empty()) return kerf::format("is doing {} for {:.1f} s{}", doing, since, device);
  if (member.info.outstanding == 0) return "is idle";
  return kerf::format("says that it is idle but owes {} result{}", member.info.outstanding,
                      member.info.outstanding == 1 ? "" : "s");
}

std::string others_of(const std::vector<Member>& members, int except, Clock::time_point now) {
  std::string text;
  for (const auto& member : members)
    if (member.info.worker != except)
      text += kerf::format("\n  {} {}", name_of(member),
                           has_lost_device(member)
                               ? kerf::format("lost its device: {}", member.failure->what())
                               : doing_of(member, now));
  return text;
}

Error loss_error(const std::vector<Member>& members, const Loss& loss, Clock::time_point now) {
  const auto& member = members[static_cast<size_t>(loss.worker)];
  return Error(ErrorCode::kLost,
               kerf::format("{} was lost: {}; last heard of, it {}{}", name_of(member), loss.how,
                            doing_of(member, now), others_of(members, loss.worker, now)));
}

}  // namespace kerf::runtime
