#include "runtime/crew_watch.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

// A worker's last words may still be in the socket when the kernel tells of its end.
constexpr auto kLastWords = 50ms;
constexpr auto kReconnect = 500ms;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// How `member` was lost, if it was.
std::optional<std::string> lost(const Member& member, const CrewOptions& options,
                                Clock::time_point now) {
  if (member.state == Member::State::kLeft || member.failure) return {};
  if (member.process_end && now >= member.ended_at + kLastWords) return *member.process_end;
  if (member.state == Member::State::kAbsent) return {};
  if (member.broken_at && now >= *member.broken_at + kReconnect) return "its connection broke";
  if (now >= member.heard + options.silence)
    return kerf::format("silent for {:.1f} s", seconds(now - member.heard));
  return {};
}

bool busy(const Member& member) {
  const bool working = member.state == Member::State::kJoined ||
                       member.state == Member::State::kStarted ||
                       member.state == Member::State::kReady;
  return working && !member.failure && !member.info.activity.doing.empty();
}

bool waits(const Member& member) { return !member.info.activity.awaits.empty(); }

// Who waits is held up by somebody else: only who computes can stand still by itself.
const Member* find_stuck(const std::vector<Member>& members, Clock::time_point since) {
  for (const auto& member : members)
    if (busy(member) && !waits(member) && member.progressed <= since) return &member;
  return nullptr;
}

// When everybody at work waits and nothing has happened anywhere: who has waited longest.
const Member* find_deadlocked(const std::vector<Member>& members, Clock::time_point since) {
  const Member* longest = nullptr;
  for (const auto& member : members) {
    if (member.progressed > since || (busy(member) && !waits(member))) return nullptr;
    if (busy(member) && (longest == nullptr || member.progressed < longest->progressed))
      longest = &member;
  }
  return longest;
}

}  // namespace

std::optional<Loss> find_loss(const std::vector<Member>& members, const CrewOptions& options,
                              Clock::time_point now) {
  for (const auto& member : members)
    if (auto how = lost(member, options, now)) return Loss{member.info.worker, std::move(*how)};
  const auto since = now - options.no_progress;
  if (const Member* stuck = find_stuck(members, since))
    return Loss{stuck->info.worker,
                kerf::format("no progress for {:.1f} s", seconds(now - stuck->progressed))};
  if (const Member* waiting = find_deadlocked(members, since))
    return Loss{waiting->info.worker,
                kerf::format("no progress for {:.1f} s: everybody who is at work waits",
                             seconds(now - waiting->progressed))};
  return {};
}

std::string name_of(const Member& member) {
  if (member.info.pid == 0) return kerf::format("worker {}", member.info.worker);
  return kerf::format("worker {} (pid {})", member.info.worker, member.info.pid);
}

std::string doing_of(const Member& member, Clock::time_point now) {
  if (member.state == Member::State::kAbsent) return "has not registered yet";
  if (member.state == Member::State::kLeft) return "has left";
  if (member.failure) return kerf::format("failed: {}", member.failure->message());
  const auto& activity = member.info.activity;
  const double since =
      static_cast<double>(activity.since_ns) / 1e9 + seconds(now - member.reported);
  const std::string& doing = activity.doing;
  if (!activity.awaits.empty()) {
    std::string text = kerf::format("waits {:.1f} s for {}", since, activity.awaits);
    if (activity.awaited >= 0) text += kerf::format(" from worker {}", activity.awaited);
    if (!doing.empty()) text += kerf::format(", while doing {}", doing);
    return text;
  }
  if (doing.empty()) return "is idle";
  return kerf::format("is doing {} for {:.1f} s", doing, since);
}

std::string others_of(const std::vector<Member>& members, int except, Clock::time_point now) {
  std::string text;
  for (const auto& member : members)
    if (member.info.worker != except)
      text += kerf::format("\n  {} {}", name_of(member), doing_of(member, now));
  return text;
}

Error loss_error(const std::vector<Member>& members, const Loss& loss, Clock::time_point now) {
  const auto& member = members[static_cast<size_t>(loss.worker)];
  return Error(ErrorCode::kLost,
               kerf::format("{} was lost: {}; last heard of, it {}{}", name_of(member), loss.how,
                            doing_of(member, now), others_of(members, loss.worker, now)));
}

}  // namespace kerf::runtime
