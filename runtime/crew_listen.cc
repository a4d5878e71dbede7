// How a crew listens: tasks out, results in, and the judgement of who is lost.
#include <signal.h>

#include <algorithm>
#include <condition_variable>

#include "runtime/failure_detector.h"
#include "runtime/live_crew.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using State = Member::State;

// For the reports that tell who waited for whom, and for a cause to show; less where somebody is
// gone, since the others wait.
constexpr auto kSettle = 700ms;
constexpr auto kSettleBehindALoss = 400ms;
// What was reported before says nothing of a loss that shows now.
constexpr auto kRecent = 500ms;
constexpr int kDrainAtMost = 10'000;

}  // namespace

void LiveCrew::send(int worker, std::vector<std::string> tasks) {
  const std::lock_guard listening(listening_);
  KERF_CHECK(worker >= 0 && worker < options_.workers, "no worker {}", worker);
  throw_if_over();
  auto& member = roster_->members()[static_cast<size_t>(worker)];
  {
    const std::lock_guard lock(mutex_);
    // Whoever waited for a worker without work waited for us.
    if (member.info.outstanding == 0) member.progressed = member.task_since = Clock::now();
    member.info.outstanding += static_cast<int64_t>(tasks.size());
  }
  for (auto& payload : encode_batches(std::move(tasks)))
    server_->send(member.peer, {ControlType::kWork, std::move(payload)});
}

std::optional<CrewResults> LiveCrew::next(Deadline deadline) {
  const std::lock_guard listening(listening_);
  while (true) {
    throw_if_over();
    if (auto results = roster_->next_results()) return results;
    step(deadline);
    if (!roster_->has_results() && !over_ && Clock::now() >= deadline) return {};
  }
}

std::vector<WorkerInfo> LiveCrew::workers() const {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerInfo> infos(static_cast<size_t>(options_.workers));
  for (size_t i = 0; i < infos.size(); ++i) {
    Mended mended = mended_before_[i];
    if (roster_) {
      infos[i] = roster_->members()[i].info;
      mended += roster_->members()[i].mended;
    }
    infos[i].worker = static_cast<int>(i);  // between two epochs nothing else is known
    infos[i].resent = mended.resent;
    infos[i].dropped = mended.dropped;
    infos[i].spans_lost = mended.spans_lost;
  }
  return infos;
}

ControlCounters LiveCrew::counters() const {
  const std::lock_guard listening(listening_);
  ControlCounters all = before_;
  if (server_) all += server_->counters();
  return all;
}

// While the crew's thread is busy elsewhere, workers still get answers. A socket of ZeroMQ may pass
// from thread to thread across a full fence, which the mutex is.
void LiveCrew::listen(const std::stop_token& stop) {
  std::mutex sleep_mutex;
  std::condition_variable_any sleep;
  while (!stop.stop_requested()) {
    std::unique_lock sleeping(sleep_mutex);
    sleep.wait_for(sleeping, stop, kListenEvery, [] { return false; });
    const std::unique_lock listening(listening_, std::try_to_lock);
    if (!listening.owns_lock() || stop.stop_requested() || !roster_ || over_) continue;
    try {
      drain();
      look_at_spares();
    } catch (const Error& error) {
      fail(error);  // for the crew's thread, when it comes back
    } catch (const std::exception& error) {
      fail(Error(ErrorCode::kInternal, error.what()));
    }
  }
}

// Looked at after every wait: what we stood still counts against nobody.
Clock::time_point LiveCrew::own_time() {
  const auto now = Clock::now();
  if (const auto stood = still_.look(now); stood > Clock::duration{}) {
    const std::lock_guard lock(mutex_);
    roster_->forgive(stood);
  }
  return still_.own_time(now);
}

std::optional<ControlServer::Incoming> LiveCrew::receive(Deadline deadline) {
  auto incoming = server_->receive(deadline);
  own_time();
  send_store_answers();
  return incoming;
}

// What wakes the server when nobody listens wakes it when somebody does.
void LiveCrew::send_store_answers() {
  if (!store_) return;
  for (const StoreThread::Said& said : store_->answers()) {
    Member& member = roster_->members()[static_cast<size_t>(said.worker)];
    if (!said.breach) {
      server_->send(member.peer, {ControlType::kStored, encode(said.answer)});
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (member.failure) continue;
    member.failure = said.breach;
    member.failed_at = Clock::now();
  }
}

void LiveCrew::hear(const ControlServer::Incoming& incoming) {
  const std::lock_guard lock(mutex_);
  roster_->handle(incoming);
}

void LiveCrew::step(Deadline deadline) {
  const auto incoming = receive(std::min(deadline, check_at_));
  if (incoming) hear(*incoming);
  if (interrupt_->raised() && !stopping_ && !over_)
    fail(Error(ErrorCode::kInterrupted, "interrupted"));
  if (!incoming || Clock::now() >= check_at_) check();
}

void LiveCrew::drain() {
  for (int i = 0; i < kDrainAtMost; ++i) {
    const auto incoming = receive(Clock::time_point{});
    if (!incoming) return;
    hear(*incoming);
  }
}

void LiveCrew::check() {
  check_at_ = after(kCheckEvery);
  drain();  // what was said counts, even if we were too busy to listen
  roster_->look_at_processes();
  if (over_) return;
  look_at_spares();
  auto& members = roster_->members();
  const auto loss = find_loss(members, options_, Clock::now());
  if (first_failed(members) == nullptr && !loss) return;
  if (loss && loss->gone)
    settle(std::max(loss->since, Clock::now() - kRecent), kSettleBehindALoss);
  else
    settle(Clock::now(), kSettle);
  // When a worker dies, others fail because of it: the loss is the cause.
  if (const auto cause = find_loss(members, options_, Clock::now())) {
    auto& process = members[static_cast<size_t>(cause->worker)].process;
    if (process) process->kill(SIGKILL);  // it may be stopped, and would not hear us
    culprit_ = cause->worker;
    lost_ = cause->gone && options_.transport != TransportKind::kInproc && !stopping_;
    return fail(loss_error(members, *cause, Clock::now()));
  }
  const Member* const member = first_failed(members);
  if (member == nullptr) return;  // the fresh reports told of progress
  culprit_ = member->info.worker;
  fail(Error(member->failure->code(),
             kerf::format("{}: {}", name_of(*member), member->failure->message()),
             member->failure->where()));
}

// Waits until everybody who still speaks has reported what came of it, so that the error can tell
// who waits for whom, and until a cause had time to show.
void LiveCrew::settle(Clock::time_point since, Clock::duration at_most) {
  const auto deadline = after(at_most);
  const auto fresh = [&](const Member& member) {
    if (may_be_lost(member, Clock::now())) return false;
    return member.state == State::kLeft || member.state == State::kAbsent || member.failure ||
           member.process_end || member.broken_at ||
           Clock::now() >= member.heard + options_.silence || member.reported > since + at_most / 4;
  };
  const auto& members = roster_->members();
  while (Clock::now() < deadline && !std::all_of(members.begin(), members.end(), fresh)) {
    if (const auto incoming = receive(std::min(deadline, after(kCheckEvery)))) hear(*incoming);
    if (interrupt_->raised()) return;
    roster_->look_at_processes();
  }
}

void LiveCrew::fail(Error error) {
  if (over_) return;
  over_ = std::move(error);
  over_at_ = Clock::now();  // nobody listens from now on
  roster_->close();
}

void LiveCrew::throw_if_over() const {
  if (over_) throw *over_;
}

}  // namespace kerf::runtime
