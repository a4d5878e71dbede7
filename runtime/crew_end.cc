// How a crew ends: in order, when all is done, or as politely as can be.
#include <signal.h>

#include <algorithm>

#include "runtime/failure_detector.h"
#include "runtime/live_crew.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using State = Member::State;

constexpr auto kPoliteStop = 1s;
constexpr auto kOrderlyStop = 10s;

// Whether it has left, as far as it tells; of a process, whether that has ended.
bool has_left(const Member& member) {
  if (member.process) return member.process_end.has_value();
  return member.state == State::kLeft || member.state == State::kAbsent || member.failure;
}

}  // namespace

void LiveCrew::stop() {
  const std::lock_guard listening(listening_);
  throw_if_over();
  roster_->finish();
  tell_all_to_stop();
  const auto deadline = own_time() + kOrderlyStop;
  while (!all_of_members(has_left)) {
    if (own_time() >= deadline)
      fail(Error(ErrorCode::kTimeout,
                 kerf::format("not all workers left within {:.0f} s:{}",
                              std::chrono::duration<double>(kOrderlyStop).count(),
                              others_of(roster_->members(), -1, Clock::now()))));
    throw_if_over();
    step();
  }
  // Gone is not enough: each must have said goodbye, and a loss shows only after its last words.
  const auto patience = own_time() + kCheckEvery;
  while (!roster_->all(State::kLeft) && !over_ && own_time() < patience) step(after(kCheckEvery));
  check();
  throw_if_over();
}

void LiveCrew::await(int all) {
  const std::lock_guard listening(listening_);
  KERF_CHECK(stopping_, "a crew that goes on takes in whoever comes");
  const auto missing = [&] { return all - static_cast<int>(came_.size()); };
  const auto waits = [&] {
    return missing() > 0 && own_time() < awaited_until_ && !interrupt_->asked() &&
           !interrupt_->raised();
  };
  if (waits() && options_.tell)
    options_.tell(kerf::format(
        "all is done; waiting for {} more to come, to tell {} so, for {:.0f} s at most", missing(),
        missing() == 1 ? "it" : "them",
        std::chrono::duration<double>(awaited_until_ - own_time()).count()));
  while (waits())
    if (const auto incoming = receive(after(kCheckEvery))) hear(*incoming);
}

void LiveCrew::tell_all_to_stop() {
  if (stopping_) return;
  stopping_ = true;
  roster_->close();
  server_->unwatch(interrupt_->descriptor());
  for (const int spare : roster_->spares()) server_->send(spare, {ControlType::kStop, {}});
  for (auto& member : roster_->members()) {
    if (member.state != State::kAbsent && member.state != State::kLeft)
      server_->send(member.peer, {ControlType::kStop, {}});
    else if (member.process && member.state == State::kAbsent)
      member.process->kill(SIGKILL);
  }
}

bool LiveCrew::all_of_members(bool (*is)(const Member&)) {
  roster_->look_at_processes();
  const auto& members = roster_->members();
  return std::all_of(members.begin(), members.end(), is);
}

LiveCrew::~LiveCrew() {
  listener_ = {};
  const std::lock_guard listening(listening_);
  try {
    if (roster_) tell_all_to_stop();
    const auto deadline = after(kPoliteStop);
    const auto gone = [](const Member& member) { return has_left(member) || member.broken_at; };
    const auto any = [&] { return !all_of_members(gone) || !roster_->spares().empty(); };
    while (roster_ && !handed_over_ && any() && Clock::now() < deadline)
      if (const auto incoming = receive(std::min(deadline, after(kCheckEvery)))) hear(*incoming);
  } catch (const std::exception&) {
    // Politeness failed; what follows does not depend on it.
  }
  roster_.reset();   // kills and reaps the processes that are left
  store_.reset();    // wakes the server
  server_.reset();   // threads that nobody welcomed see that nobody will
  threads_.clear();  // joins
}

}  // namespace kerf::runtime
