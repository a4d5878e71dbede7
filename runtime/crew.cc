#include "runtime/crew.h"

#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/crew_watch.h"
#include "runtime/inproc_control.h"
#include "runtime/messages.h"
#include "runtime/roster.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using State = Member::State;

constexpr auto kCheckEvery = 100ms;
constexpr auto kKeepEvery = 200ms;  // between looks of the keeper thread
constexpr auto kSettle = 500ms;     // for the reports that tell who waited for a lost worker
constexpr auto kPoliteStop = 1s;
constexpr auto kOrderlyStop = 10s;
constexpr int kDrainAtMost = 10'000;
constexpr uint32_t kFirstEpoch = 1;

// Whether it has left, as far as it tells; of a process, whether that has ended.
bool has_left(const Member& member) {
  if (member.process) return member.process_end.has_value();
  return member.state == State::kLeft || member.state == State::kAbsent || member.failure;
}

class LiveCrew final : public Crew {
 public:
  explicit LiveCrew(const CrewOptions& options);
  ~LiveCrew() override;

  void assemble(const Waiting& waiting);
  void start(const std::string& program, const std::vector<std::string>& jobs,
             const std::vector<std::vector<std::vector<Lane>>>& send) override;
  void send(int worker, std::vector<std::string> tasks) override;
  std::optional<CrewResults> next(Deadline deadline) override;
  void stop() override;
  void interrupt() override { interrupt_->raise(); }
  std::string address() const override { return server_->address(); }
  std::vector<WorkerInfo> workers() const override;
  ControlCounters counters() const override;

 private:
  void start_threads();
  void start_processes(std::vector<Member>& members);
  void keep(const std::stop_token& stop);

  void step(Deadline deadline);
  void drain();
  void check();
  void settle();
  void fail(Error error);
  void throw_if_over() const;
  void tell_all_to_stop();
  bool all_of_members(bool (*is)(const Member&));
  Start start_of(size_t self, const std::vector<std::vector<std::vector<Lane>>>& send) const;

  const CrewOptions options_;
  mutable std::mutex mutex_;  // held by whoever uses what follows: the caller, or the keeper
  std::shared_ptr<Interrupt> interrupt_;
  InprocControl inproc_;
  std::shared_ptr<InprocHub> hub_;
  std::vector<std::jthread> threads_;  // inproc workers; they see when their server goes
  std::unique_ptr<ControlServer> server_;
  std::optional<Roster> roster_;
  std::optional<Error> over_;  // what ended the run; thrown by every later call
  Clock::time_point check_at_;
  bool started_ = false;
  bool stopping_ = false;
  uint64_t token_ = random_bits();
  std::jthread keeper_;
};

LiveCrew::LiveCrew(const CrewOptions& options)
    : options_(options),
      interrupt_(options.interrupt ? options.interrupt : std::make_shared<Interrupt>()),
      check_at_(after(kCheckEvery)) {
  if (options.workers < 1)
    throw Error(ErrorCode::kUsage, "a run needs at least one worker: --workers 1 or more");
  std::vector<Member> members(static_cast<size_t>(options.workers));
  for (size_t i = 0; i < members.size(); ++i) members[i].info.worker = static_cast<int>(i);
  if (options.transport == TransportKind::kInproc) {
    if (!options.listen.empty())
      throw Error(ErrorCode::kUsage,
                  "workers over inproc are threads and cannot connect: leave out --listen, or use "
                  "--transport shm, ipc or tcp");
    start_threads();
  } else if (options.listen.empty()) {
    start_processes(members);
  } else {
    server_ = make_control_server(options.listen, options.workers + kStrangersAtMost);
  }
  server_->watch(interrupt_->descriptor());
  roster_.emplace(options_, *server_, std::move(members));
  keeper_ = std::jthread([this](const std::stop_token& stop) { keep(stop); });
}

void LiveCrew::start_threads() {
  KERF_CHECK(options_.handlers, "inproc workers need handlers");
  server_ = inproc_.server();
  hub_ = make_inproc_hub();
  // All of them before the first thread, which would wait for its scheduler if one failed.
  std::vector<std::unique_ptr<ControlClient>> clients;
  for (int index = 0; index < options_.workers; ++index) clients.push_back(inproc_.connect());
  for (int index = 0; index < options_.workers; ++index)
    threads_.emplace_back([this, index, control = std::move(clients[static_cast<size_t>(index)])] {
      const WorkerOptions mine{.scheduler = "inproc",
                               .index = index,
                               .device = options_.device,
                               .identity = options_.identity,
                               .hub = hub_,
                               .join_timeout = options_.assemble_timeout,
                               .silence = options_.silence,
                               .give_up = {}};
      try {
        run_worker(mine, *control, options_.handlers);
      } catch (const std::exception&) {
        // The scheduler was told by a kFailed message, and throws it.
      }
    });
}

// Before the server, because a fork must not see a ZeroMQ context: the address is known beforehand.
void LiveCrew::start_processes(std::vector<Member>& members) {
  const std::string address = random_local_address();
  for (auto& member : members) {
    auto command = options_.worker_command;
    command.insert(command.end(),
                   {"--connect", address, "--index", std::to_string(member.info.worker), "--device",
                    options_.device});
    member.process = Process::spawn(command);
    member.info.pid = member.process->pid();
  }
  server_ = make_control_server(address, options_.workers + kStrangersAtMost);
}

LiveCrew::~LiveCrew() {
  keeper_ = {};
  const std::lock_guard lock(mutex_);
  try {
    tell_all_to_stop();
    const auto deadline = after(kPoliteStop);
    const auto gone = [](const Member& member) { return has_left(member) || member.broken_at; };
    while (!all_of_members(gone) && Clock::now() < deadline)
      if (auto incoming = server_->receive(std::min(deadline, after(kCheckEvery))))
        roster_->handle(*incoming);
  } catch (const std::exception&) {
    // Politeness failed; what follows does not depend on it.
  }
  roster_.reset();   // kills and reaps the processes that are left
  server_.reset();   // threads that nobody welcomed see that nobody will
  threads_.clear();  // joins
}

void LiveCrew::assemble(const Waiting& waiting) {
  const std::lock_guard lock(mutex_);
  const auto deadline = after(options_.assemble_timeout);
  int told = -1;
  while (true) {
    throw_if_over();
    const int here = roster_->joined();
    if (waiting && here != told) waiting(here, server_->address());
    told = here;
    if (roster_->all(State::kJoined)) return;
    if (Clock::now() >= deadline)
      fail(Error(ErrorCode::kTimeout,
                 kerf::format("{} of {} workers registered at {} within {:.0f} s", here,
                              options_.workers, server_->address(),
                              std::chrono::duration<double>(options_.assemble_timeout).count())));
    else
      step(deadline);
  }
}

void LiveCrew::start(const std::string& program, const std::vector<std::string>& jobs,
                     const std::vector<std::vector<std::vector<Lane>>>& send) {
  const std::lock_guard lock(mutex_);
  auto& members = roster_->members();
  KERF_CHECK(!started_, "a crew starts once");
  KERF_CHECK(jobs.size() == members.size() && send.size() == members.size(),
             "{} jobs and {} rows of channels for {} workers", jobs.size(), send.size(),
             members.size());
  started_ = true;
  for (auto& member : members) member.progressed = Clock::now();
  while (!roster_->all(State::kAddressed)) {
    step(after(kCheckEvery));
    throw_if_over();
  }
  for (size_t i = 0; i < members.size(); ++i) {
    Start start = start_of(i, send);
    start.program = program;
    start.job = jobs[i];
    members[i].state = State::kStarted;
    members[i].progressed = Clock::now();
    server_->send(members[i].peer, {ControlType::kStart, encode(start)});
  }
  while (!roster_->all(State::kReady)) {
    step(after(kCheckEvery));
    throw_if_over();
  }
}

Start LiveCrew::start_of(size_t self,
                         const std::vector<std::vector<std::vector<Lane>>>& send) const {
  const auto& members = roster_->members();
  Start start;
  start.wiring.self = static_cast<int32_t>(self);
  start.wiring.epoch = kFirstEpoch;
  start.wiring.token = token_;
  for (size_t peer = 0; peer < members.size(); ++peer) {
    KERF_CHECK(send[peer].size() == members.size(), "row {} of the channels has {} of {} columns",
               peer, send[peer].size(), members.size());
    if (peer == self) continue;
    const auto key = static_cast<int32_t>(peer);
    if (!send[self][peer].empty()) start.wiring.send[key] = send[self][peer];
    if (!send[peer][self].empty()) start.wiring.receive[key] = send[peer][self];
    if (!send[self][peer].empty() || !send[peer][self].empty())
      start.wiring.addresses[key] = members[peer].address;
  }
  return start;
}

void LiveCrew::send(int worker, std::vector<std::string> tasks) {
  const std::lock_guard lock(mutex_);
  KERF_CHECK(worker >= 0 && worker < options_.workers, "no worker {}", worker);
  throw_if_over();
  auto& member = roster_->members()[static_cast<size_t>(worker)];
  // Whoever waited for an idle worker waited for us.
  if (member.info.activity.doing.empty()) member.progressed = Clock::now();
  for (auto& payload : encode_batches(std::move(tasks)))
    server_->send(member.peer, {ControlType::kWork, std::move(payload)});
}

std::optional<CrewResults> LiveCrew::next(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  while (true) {
    throw_if_over();
    if (auto results = roster_->next_results()) return results;
    step(deadline);
    if (!roster_->has_results() && !over_ && Clock::now() >= deadline) return {};
  }
}

void LiveCrew::stop() {
  const std::lock_guard lock(mutex_);
  throw_if_over();
  tell_all_to_stop();
  const auto deadline = after(kOrderlyStop);
  while (!all_of_members(has_left)) {
    if (Clock::now() >= deadline)
      fail(Error(ErrorCode::kTimeout,
                 kerf::format("not all workers left within {:.0f} s:{}",
                              std::chrono::duration<double>(kOrderlyStop).count(),
                              others_of(roster_->members(), -1, Clock::now()))));
    throw_if_over();
    step(deadline);
  }
  // Gone is not enough: each must have said goodbye, and a loss shows only after its last words.
  const auto patience = after(kCheckEvery);
  while (!roster_->all(State::kLeft) && !over_ && Clock::now() < patience) step(patience);
  check();
  throw_if_over();
}

std::vector<WorkerInfo> LiveCrew::workers() const {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerInfo> infos;
  for (const auto& member : roster_->members()) infos.push_back(member.info);
  return infos;
}

ControlCounters LiveCrew::counters() const {
  const std::lock_guard lock(mutex_);
  return server_->counters();
}

// While the crew's thread is busy elsewhere, workers still get answers. A socket of ZeroMQ may pass
// from thread to thread across a full fence, which the mutex is.
void LiveCrew::keep(const std::stop_token& stop) {
  std::mutex sleep_mutex;
  std::condition_variable_any sleep;
  while (!stop.stop_requested()) {
    std::unique_lock sleeping(sleep_mutex);
    sleep.wait_for(sleeping, stop, kKeepEvery, [] { return false; });
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock() && !stop.stop_requested()) drain();
  }
}

// Takes in one message, or what else happens until the deadline.
void LiveCrew::step(Deadline deadline) {
  auto incoming = server_->receive(std::min(deadline, check_at_));
  const bool quiet = !incoming;
  if (incoming) roster_->handle(*incoming);
  if (interrupt_->raised() && !stopping_ && !over_)
    fail(Error(ErrorCode::kInterrupted, "interrupted"));
  if (quiet || Clock::now() >= check_at_) check();
}

void LiveCrew::drain() {
  for (int i = 0; i < kDrainAtMost; ++i) {
    auto incoming = server_->receive(Clock::time_point{});
    if (!incoming) return;
    roster_->handle(*incoming);
  }
}

void LiveCrew::check() {
  check_at_ = after(kCheckEvery);
  drain();  // what was said counts, even if we were too busy to listen
  roster_->look_at_processes();
  if (over_) return;
  auto& members = roster_->members();
  const auto failed = [](const Member& member) { return member.failure.has_value(); };
  if (std::none_of(members.begin(), members.end(), failed) &&
      !find_loss(members, options_, Clock::now()))
    return;
  settle();
  // When a worker dies, others fail because of it: the loss is the cause.
  if (const auto cause = find_loss(members, options_, Clock::now())) {
    auto& process = members[static_cast<size_t>(cause->worker)].process;
    if (process) process->kill(SIGKILL);  // it may be stopped, and would not hear us
    return fail(loss_error(members, *cause, Clock::now()));
  }
  const auto found = std::find_if(members.begin(), members.end(), failed);
  if (found == members.end()) return;  // the fresh reports told of progress
  const Member& member = *found;
  fail(Error(member.failure->code(),
             kerf::format("{}: {}", name_of(member), member.failure->message()),
             member.failure->where()));
}

// Waits until everybody who still speaks has reported once more, so that the error can tell who
// waits for whom, and until a cause had time to show.
void LiveCrew::settle() {
  const auto begin = Clock::now();
  const auto deadline = begin + kSettle;
  const auto fresh = [&](const Member& member) {
    return member.state == State::kLeft || member.state == State::kAbsent || member.failure ||
           member.process_end || member.broken_at || begin >= member.heard + options_.silence ||
           member.reported > begin + kSettle / 4;
  };
  const auto& members = roster_->members();
  while (Clock::now() < deadline && !std::all_of(members.begin(), members.end(), fresh)) {
    if (auto incoming = server_->receive(std::min(deadline, after(kCheckEvery))))
      roster_->handle(*incoming);
    if (interrupt_->raised()) return;
    roster_->look_at_processes();
  }
}

void LiveCrew::fail(Error error) {
  if (over_) return;
  over_ = std::move(error);
  roster_->close();
}

void LiveCrew::throw_if_over() const {
  if (over_) throw *over_;
}

void LiveCrew::tell_all_to_stop() {
  if (stopping_) return;
  stopping_ = true;
  roster_->close();
  server_->unwatch(interrupt_->descriptor());
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

}  // namespace

std::unique_ptr<Crew> Crew::assemble(const CrewOptions& options, const Waiting& waiting) {
  auto crew = std::make_unique<LiveCrew>(options);
  crew->assemble(waiting);
  return crew;
}

}  // namespace kerf::runtime
