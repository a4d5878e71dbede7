// How a crew is made and wired, again behind a loss.
#include "runtime/crew.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/encryption.h"
#include "runtime/failure_detector.h"
#include "runtime/live_crew.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using State = Member::State;

// What ends a worker before it has begun would do so for ever; so many of whichever end it, too.
constexpr int kLossesOfOneWhileAssembled = 3;
constexpr int kLossesWhileAssembled = 10;

void check_size(const LaneTable& lanes, size_t workers) {
  KERF_CHECK(lanes.size() == workers, "{} rows of channels for {} workers", lanes.size(), workers);
  for (size_t i = 0; i < workers; ++i)
    KERF_CHECK(lanes[i].size() == workers, "row {} of the channels has {} of {} columns", i,
               lanes[i].size(), workers);
}

// Where nobody is there any more who could send: what they had sent and nobody took in. A call
// takes in a portion of it.
void count_what_came(ControlServer& server) {
  for (int64_t counted = -1; counted != server.counters().fenced;) {
    counted = server.counters().fenced;
    while (server.receive(Clock::now())) {
    }
  }
}

}  // namespace

LiveCrew::LiveCrew(const CrewOptions& options)
    : options_(options),
      interrupt_(options.interrupt ? options.interrupt : std::make_shared<Interrupt>()),
      check_at_(after(kCheckEvery)),
      returning_(options.returning) {
  if (options.workers < 1)
    throw Error(ErrorCode::kUsage, "a run needs at least one worker: --workers 1 or more");
  if (options.transport == TransportKind::kInproc && !options.listen.empty())
    throw Error(ErrorCode::kUsage,
                "workers over inproc are threads and cannot connect: leave out --listen, or use "
                "--transport shm, ipc or tcp");
  mended_before_.resize(static_cast<size_t>(options.workers));
  begin_epoch();
  listener_ = std::jthread([this](const std::stop_token& stop) { listen(stop); });
}

void LiveCrew::begin_epoch() {
  std::vector<Member> members(static_cast<size_t>(options_.workers));
  for (size_t i = 0; i < members.size(); ++i) members[i].info.worker = static_cast<int>(i);
  if (options_.transport == TransportKind::kInproc)
    start_threads();
  else if (options_.listen.empty())
    start_processes(members);
  else if (!server_)
    server_ = make_control_server(options_.listen, options_.workers + kStrangersAtMost,
                                  options_.admission);
  server_->watch(interrupt_->descriptor());
  const std::lock_guard lock(mutex_);
  roster_.emplace(options_, *server_, std::move(members), came_, std::exchange(returning_, {}));
  if (!options_.listen.empty()) {
    store_.emplace(
        store_rules_, options_.workers, [this] { server_->wake(); }, options_.tell);
    roster_->use_store(*store_);
  }
  ++epoch_;
  token_ = random_bits();
  if (options_.encrypt_data) secret_ = random_secret();
}

const std::string& LiveCrew::device_of(int worker) const {
  KERF_CHECK(!options_.devices.empty(), "local workers need a device");
  return options_.devices[static_cast<size_t>(worker) % options_.devices.size()];
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
                               .device = device_of(index),
                               .make_device = options_.make_device,
                               .identity = options_.identity,
                               .hub = hub_,
                               .join_timeout = options_.assemble_timeout,
                               .silence = options_.silence,
                               .give_up = {},
                               .again = {}};
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
                    device_of(member.info.worker)});
    member.process = Process::spawn(command);
    member.info.pid = member.process->pid();
  }
  server_ = make_control_server(address, options_.workers + kStrangersAtMost);
}

void LiveCrew::assemble(const Waiting& waiting) {
  const std::lock_guard listening(listening_);
  awaited_until_ = own_time() + options_.assemble_timeout;
  std::map<std::optional<int>, int> losses;  // by worker
  for (int all = 1;; ++all) {
    try {
      return wait_for_all(waiting, options_.assemble_timeout);
    } catch (const Error& loss) {
      const bool again =
          lost_ && ++losses[culprit_] < kLossesOfOneWhileAssembled && all < kLossesWhileAssembled;
      if (!again || !options_.begins_again) throw;
      options_.begins_again(loss);
    }
    begin_again();
  }
}

void LiveCrew::wait_for_all(const Waiting& waiting, std::chrono::milliseconds timeout) {
  const auto deadline = own_time() + timeout;
  const auto soon = own_time() + kComeAgain;
  int told = -1;
  while (true) {
    // Whoever would heed it looks when all are here, and so not before somebody comes who may not.
    if (interrupt_->asked() && own_time() >= soon) interrupt_->raise();
    throw_if_over();
    look_at_spares();
    const int here = roster_->joined();
    if (waiting && here != told) waiting(here, server_->address());
    told = here;
    if (roster_->all(State::kJoined)) return;
    if (own_time() >= deadline)
      fail(Error(
          ErrorCode::kTimeout,
          kerf::format("{} of {} workers registered at {} within {:.0f} s", here, options_.workers,
                       server_->address(), std::chrono::duration<double>(timeout).count())));
    else
      step();
  }
}

void LiveCrew::look_at_spares() {
  const std::lock_guard lock(mutex_);
  roster_->look_at_spares();
}

void LiveCrew::start(const std::string& program, const std::vector<std::string>& jobs,
                     const LaneTable& send, const LaneTable& serve) {
  const std::lock_guard listening(listening_);
  const size_t workers = roster_->members().size();
  KERF_CHECK(!started_, "a crew starts once");
  KERF_CHECK(jobs.size() == workers, "{} jobs for {} workers", jobs.size(), workers);
  check_size(send, workers);
  if (!serve.empty()) check_size(serve, workers);
  check_transports(send);
  check_transports(serve);
  started_ = {program, jobs, send, serve};
  wire();
}

void LiveCrew::wire() {
  auto& members = roster_->members();
  for (auto& member : members) member.progressed = Clock::now();
  while (!roster_->all(State::kAddressed)) {
    step();
    throw_if_over();
  }
  for (size_t i = 0; i < members.size(); ++i) {
    const Start start{
        .wiring = wiring_of(i, started_->send),
        .service = started_->serve.empty() ? Wiring{} : service_of(i, started_->serve),
        .program = started_->program,
        .job = started_->jobs[i]};
    members[i].state = State::kStarted;
    members[i].progressed = Clock::now();
    server_->send(members[i].peer, {ControlType::kStart, encode(start)});
  }
  while (!roster_->all(State::kReady)) {
    step();
    throw_if_over();
  }
}

// The fence between epochs is that nothing of the last one is left: its workers are gone, or are
// new processes under their old numbers, and its token is unknown to the next. Who connects finds
// the same address.
void LiveCrew::end_epoch() {
  tell_connected_to_come_again();
  if (!options_.listen.empty()) returning_ = roster_->returning(over_at_);
  for (const Member& member : roster_->members())
    if (member.process) server_->fence(member.peer);
  {
    const std::lock_guard lock(mutex_);
    for (const Member& member : roster_->members())
      mended_before_[static_cast<size_t>(member.info.worker)] += member.mended;
    roster_.reset();  // kills and reaps
  }
  store_.reset();
  server_->unwatch(interrupt_->descriptor());
  if (!options_.listen.empty()) return;
  count_what_came(*server_);
  before_ += server_->counters();
  server_.reset();
}

void LiveCrew::tell_connected_to_come_again() {
  std::vector<int> peers = roster_->spares();
  for (const Member& member : roster_->members())
    if (!member.process && member.state != State::kAbsent) peers.push_back(member.peer);
  for (const int peer : peers) {
    server_->send(peer, {ControlType::kAgain, {}});
    server_->fence(peer);
  }
}

void LiveCrew::begin_again() {
  end_epoch();
  over_.reset();
  culprit_.reset();
  lost_ = false;
  try {
    begin_epoch();
  } catch (const Error& error) {
    over_ = error;
    throw;
  }
}

int LiveCrew::here() const {
  const std::lock_guard listening(listening_);
  return roster_ ? roster_->joined() : 0;
}

std::vector<Returning> LiveCrew::hand_over() {
  const std::lock_guard listening(listening_);
  std::vector<Returning> returning = roster_->returning(over_ ? over_at_ : Clock::now());
  tell_connected_to_come_again();
  handed_over_ = stopping_ = true;
  roster_->close();
  return returning;
}

void LiveCrew::restart(const Waiting& waiting) {
  const std::lock_guard listening(listening_);
  KERF_CHECK(over_ && lost_, "a crew that lost nobody begins again");
  begin_again();
  wait_for_all(waiting, options_.restart_timeout.value_or(options_.assemble_timeout));
  check_transports(started_->send);  // others may be elsewhere
  check_transports(started_->serve);
  wire();
}

bool LiveCrew::can_restart() const {
  const std::lock_guard listening(listening_);
  return over_ && lost_ && started_;
}

std::string LiveCrew::kept_file(int worker, int which) {
  const std::lock_guard listening(listening_);
  const auto key = std::pair(worker, which);
  const auto found = kept_.find(key);
  if (found != kept_.end()) return found->second.path();
  try {
    KeptFile file(kerf::format("kerf worker {}", worker));
    std::string path = kept_.emplace(key, std::move(file)).first->second.path();
    store_rules_.keep(worker, path);
    return path;
  } catch (const Error&) {
    return {};
  }
}

void LiveCrew::allow(const std::filesystem::path& folder, StoreAccess access) {
  store_rules_.allow(folder, access);
}

Wiring LiveCrew::wiring_of(size_t self, const LaneTable& send) const {
  const auto& members = roster_->members();
  Wiring wiring;
  wiring.self = static_cast<int32_t>(self);
  wiring.epoch = epoch_;
  wiring.token = token_;
  for (size_t peer = 0; peer < members.size(); ++peer) {
    if (peer == self || (send[self][peer].empty() && send[peer][self].empty())) continue;
    const auto key = static_cast<int32_t>(peer);
    if (!send[self][peer].empty()) wiring.send[key] = send[self][peer];
    if (!send[peer][self].empty()) wiring.receive[key] = send[peer][self];
    wiring.addresses[key] = members[peer].addresses.channels;
    const TransportKind kind = transport_between(wiring.self, key);
    wiring.transports[key] = kind;
    check_way({name_of(members[self]), members[self].reach},
              {name_of(members[peer]), members[peer].reach},
              address_over(kind, wiring.addresses[key]));
    if (members[peer].reach.sockets != members[self].reach.sockets) wiring.elsewhere.push_back(key);
    if (options_.encrypt_data && kind == TransportKind::kTcp)
      wiring.secrets[key] = derived_secret(
          secret_, kerf::format("{} {}", std::min(self, peer), std::max(self, peer)));
  }
  return wiring;
}

Wiring LiveCrew::service_of(size_t self, const LaneTable& serve) const {
  Wiring wiring = wiring_of(self, serve);
  for (auto& [peer, address] : wiring.addresses)
    address = roster_->members()[static_cast<size_t>(peer)].addresses.service;
  for (auto& [peer, kind] : wiring.transports) kind = by_host_memory(kind);
  for (auto& [peer, secret] : wiring.secrets) secret = derived_secret(secret, "service");
  return wiring;
}

// Members stay as they registered, so this needs no lock.
TransportKind LiveCrew::transport_between(int worker, int other) const {
  const auto neighbour = [this](int number) {
    const Member& member = roster_->members().at(static_cast<size_t>(number));
    return Neighbour{name_of(member), member.reach};
  };
  return runtime::transport_between(options_.transport, neighbour(worker), neighbour(other));
}

void LiveCrew::check_transports(const LaneTable& send) const {
  for (size_t u = 0; u < send.size(); ++u)
    for (size_t v = 0; v < send[u].size(); ++v)
      if (u != v && !send[u][v].empty())
        std::ignore = transport_between(static_cast<int>(u), static_cast<int>(v));
}

std::unique_ptr<Crew> Crew::assemble(const CrewOptions& options, const Waiting& waiting) {
  auto crew = std::make_unique<LiveCrew>(options);
  crew->assemble(waiting);
  return crew;
}

}  // namespace kerf::runtime
