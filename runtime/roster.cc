#include "runtime/roster.h"

#include <algorithm>

#include "runtime/messages.h"
#include "runtime/wire.h"

namespace kerf::runtime {

using State = Member::State;
using namespace std::chrono_literals;

namespace {

Origin origin_of(const Registration& registration) {
  return {registration.reach.host,
          registration.keeper != 0 ? registration.keeper : registration.pid};
}

// They are summed over workers and epochs.
const Mended& counted(const Mended& mended) {
  constexpr int64_t kMost = int64_t{1} << 48;
  for (const int64_t number : {mended.resent, mended.dropped, mended.spans_lost})
    if (number < 0 || number > kMost)
      throw Error(ErrorCode::kProtocol, kerf::format("it counted {} messages or spans", number));
  return mended;
}

}  // namespace

Roster::Roster(const CrewOptions& options, ControlServer& server, std::vector<Member> members,
               std::set<Origin>& came, std::vector<Returning> returning)
    : options_(options),
      server_(server),
      members_(std::move(members)),
      spares_(server, options.silence),
      returning_(std::move(returning)),
      reserved_until_(after(kComeAgain)),
      came_(came) {
  for (const auto& member : members_)
    if (member.process) server_.watch(member.process->descriptor());
}

void Roster::handle(const ControlServer::Incoming& incoming) {
  const auto found = by_peer_.find(incoming.peer);
  if (found == by_peer_.end()) {
    if (spares_.hear(incoming) || incoming.disconnected) return;
    if (incoming.message.type == ControlType::kRegister)
      admit(incoming.peer, incoming.message.payload);
    else
      server_.forget(incoming.peer);
    return;
  }
  auto& member = members_[static_cast<size_t>(found->second)];
  if (incoming.disconnected) {
    if (!member.broken_at) member.broken_at = Clock::now();
    return;
  }
  member.heard = Clock::now();
  member.broken_at.reset();
  try {
    handle_message(member, incoming);
  } catch (const Error& error) {
    member.failure = Error(ErrorCode::kProtocol, error.message());
  }
  if (member.failure && !member.failed_at) member.failed_at = member.heard;
}

void Roster::handle_message(Member& member, const ControlServer::Incoming& incoming) {
  const ControlMessage& message = incoming.message;
  switch (message.type) {
    case ControlType::kResults:
      return take_results(member, message.payload);
    case ControlType::kReport:
      expect_acknowledgements(member);
      return take_report(member, message.payload);
    case ControlType::kAddress:
      if (member.state != State::kJoined)
        throw Error(ErrorCode::kProtocol, "it told its address again");
      return take_addresses(member, incoming);
    case ControlType::kReady:
      if (member.state == State::kStarted) member.state = State::kReady;
      return;
    case ControlType::kStore:
      if (store_ == nullptr || (member.state != State::kStarted && member.state != State::kReady))
        throw Error(ErrorCode::kProtocol, "it asked for files of the run that it may not use");
      expect_acknowledgements(member);
      store_->take(member.info.worker, message.payload);
      // Its reports are behind all that it sent ahead, which a slow network takes long for.
      member.progressed = member.heard;
      return;
    case ControlType::kBye:
      return take_farewell(member, message.payload);
    case ControlType::kFailed: {
      const auto failure = decode<Failure>(message.payload);
      const auto last = static_cast<int32_t>(ErrorCode::kInternal);
      const bool known = failure.code >= 0 && failure.code <= last;
      member.failure = Error(known ? static_cast<ErrorCode>(failure.code) : ErrorCode::kInternal,
                             failure.message, failure.where);
      return;
    }
    default:
      throw Error(ErrorCode::kProtocol, kerf::format("a worker sent a message of type {}",
                                                     static_cast<int>(message.type)));
  }
}

// What it is answered is kept until it says that it has it.
void Roster::expect_acknowledgements(const Member& member) const {
  const int64_t kept = server_.unacknowledged_answers(member.peer);
  const int64_t most = most_unacknowledged(store_ != nullptr ? store_->window() : 0);
  if (kept > most)
    throw Error(ErrorCode::kProtocol,
                kerf::format("it asks on and on and never says that it has the answers, of which "
                             "{} bytes are kept; {} may be",
                             kept, most));
}

// Its peers are sent there: to no other host than the one that it speaks from.
void Roster::take_addresses(Member& member, const ControlServer::Incoming& incoming) {
  member.addresses = decode<Addresses>(incoming.message.payload);
  check_endpoint_address(member.transports, member.addresses.channels, incoming.host);
  check_endpoint_address(by_host_memory(member.transports), member.addresses.service,
                         incoming.host);
  member.state = State::kAddressed;
}

void Roster::take_results(Member& member, const std::string& payload) {
  auto results = decode<std::vector<std::string>>(payload);
  // Nothing would count as progress, over and over.
  if (results.empty()) throw Error(ErrorCode::kProtocol, "it sent a batch of no results");
  if (static_cast<int64_t>(results.size()) > member.info.outstanding)
    throw Error(ErrorCode::kProtocol, "it sent a result that nobody asked for");
  member.info.outstanding -= static_cast<int64_t>(results.size());
  member.progressed = member.task_since = member.heard;
  results_.push_back({member.info.worker, std::move(results)});
}

void Roster::take_farewell(Member& member, const std::string& payload) {
  if (!closed_) throw Error(ErrorCode::kProtocol, "it left before it was told to stop");
  member.mended = counted(decode<Mended>(payload));
  if (store_ != nullptr) store_->forget(member.info.worker);
  member.state = State::kLeft;
}

void Roster::take_report(Member& member, const std::string& payload) {
  auto report = decode<Report>(payload);
  server_.send(member.peer, clock_answer(report));
  auto& info = member.info;
  const bool moved = report.activity.progress != info.activity.progress ||
                     info.activity.doing.empty() != report.activity.doing.empty();
  info.clock_offset_ns = report.clock_offset_ns;
  info.round_trip_ns = report.round_trip_ns;
  info.activity = std::move(report.activity);
  // A report that is due just then comes behind the farewell, which has it all.
  if (member.state != State::kLeft) member.mended = counted(report.mended);
  member.reported = Clock::now();
  if (moved) member.progressed = member.reported;
}

void Roster::admit(int peer, const std::string& payload) {
  Registration registration;
  try {
    registration = decode<Registration>(payload);
  } catch (const Error& error) {
    return refuse(peer, kerf::format("your registration is malformed: {}", error.message()));
  }
  note_who_came(registration);
  if (finished_) {
    spares_.add(peer, std::move(registration));
    return server_.send(peer, {ControlType::kStop, {}});
  }
  if (!options_.wishes_bind && !is_absent(registration.wish)) registration.wish = -1;
  if (const auto why = no_place_for(registration); !why.empty()) return refuse(peer, why);
  if (const auto why = objection(registration); !why.empty()) {
    refuse(peer, why);
    // A child of our own that we refuse cannot be replaced by another.
    for (auto& member : members_)
      if (member.process && member.info.worker == registration.wish) {
        member.failure = Error(ErrorCode::kUnavailable, kerf::format("refused: {}", why));
        member.failed_at = Clock::now();
      }
    return;
  }
  for (Member& member : members_)
    if (has_died(member, registration) && !member.replaced_at) member.replaced_at = Clock::now();
  if (const auto place = place_for(registration)) return welcome(*place, peer, registration);
  spares_.add(peer, std::move(registration));
}

// Also of those that are refused, which end by it.
void Roster::note_who_came(const Registration& registration) {
  const size_t all = members_.size() + static_cast<size_t>(options_.spares);
  if (came_.size() < all) came_.insert(origin_of(registration));
}

void Roster::welcome(int worker, int peer, const Registration& registration) {
  Member& member = members_[static_cast<size_t>(worker)];
  member.state = State::kJoined;
  member.peer = peer;
  member.info.pid = registration.pid;
  member.info.device = registration.device;
  member.reach = registration.reach;
  member.origin = origin_of(registration);
  member.transports =
      endpoint_kinds(options_.transport, member.process.has_value(), registration.reach);
  member.heard = member.reported = member.progressed = Clock::now();
  by_peer_[peer] = member.info.worker;
  server_.send(peer, {ControlType::kWelcome,
                      encode(Welcome{.worker = member.info.worker,
                                     .workers = static_cast<int32_t>(members_.size()),
                                     .threads = options_.threads,
                                     .transports = member.transports,
                                     .local = member.process.has_value(),
                                     .store_window = store_ != nullptr ? store_->window() : 0})});
}

// Why there is no place for it; empty if there is.
std::string Roster::no_place_for(const Registration& registration) const {
  if (closed_) return "this run is over";
  const int wish = registration.wish;
  if (wish < -1 || wish >= static_cast<int>(members_.size()))
    return kerf::format("there is no worker {} among {}", wish, members_.size());
  // All members have processes, or none has.
  const auto& place = members_[static_cast<size_t>(std::max(wish, 0))];
  if (place.process && (wish < 0 || registration.pid != place.process->pid()))
    return "this run starts its workers itself";
  return {};
}

// The same of one that waits; `room` is for as many spares.
std::string Roster::no_place_yet(const Registration& registration, int& room) const {
  if (is_full()) {
    if (room-- > 0) return {};
    return kerf::format("this run has all of its {} workers already, and {}", members_.size(),
                        options_.spares == 0 ? "no --spares" : "all of its spares");
  }
  if (registration.wish < 0 || is_absent(registration.wish)) return {};
  const Member& place = members_[static_cast<size_t>(registration.wish)];
  if (is_being_lost(place)) return {};
  return kerf::format("{} has that number already", name_of(place));
}

bool Roster::is_being_lost(const Member& member) const {
  return member.broken_at || member.replaced_at;
}

bool Roster::is_absent(int worker) const {
  return worker >= 0 && worker < static_cast<int>(members_.size()) &&
         members_[static_cast<size_t>(worker)].state == State::kAbsent;
}

bool Roster::is_full() const { return all(State::kJoined); }

// Whether it shows that this one is no more: its keeper, unless that is this process, has one at a
// time.
bool Roster::has_died(const Member& member, const Registration& registration) const {
  return !member.process && registration.keeper != 0 && member.state != State::kAbsent &&
         member.origin == origin_of(registration);
}

bool Roster::is_reserved(int worker) const {
  return Clock::now() < reserved_until_ && is_absent(worker) &&
         std::any_of(returning_.begin(), returning_.end(),
                     [&](const Returning& returning) { return returning.worker == worker; });
}

std::optional<int> Roster::place_for(const Registration& registration) const {
  if (registration.wish >= 0)
    return is_absent(registration.wish) ? std::optional<int>(registration.wish) : std::nullopt;
  for (const Returning& returning : returning_)
    if (returning.origin == origin_of(registration) && is_absent(returning.worker))
      return returning.worker;
  // Its place is the one of the worker before it, which all hear of first.
  if (std::any_of(members_.begin(), members_.end(),
                  [&](const Member& member) { return has_died(member, registration); }))
    return std::nullopt;
  for (int worker = 0; worker < static_cast<int>(members_.size()); ++worker)
    if (is_absent(worker) && !is_reserved(worker)) return worker;
  return std::nullopt;
}

void Roster::forgive(Clock::duration by) {
  runtime::forgive(members_, by);
  spares_.forgive(by);
  reserved_until_ += by;
}

void Roster::look_at_spares() {
  spares_.place([&](int peer, const Registration& registration) {
    const auto place = place_for(registration);
    if (place) welcome(*place, peer, registration);
    return place.has_value();
  });
  // Who took the place of one that is being lost has it soon.
  const auto lost = std::count_if(members_.begin(), members_.end(),
                                  [&](const Member& member) { return is_being_lost(member); });
  int room = options_.spares + static_cast<int>(lost);
  spares_.refuse(
      [&](const Registration& registration) { return no_place_yet(registration, room); });
}

// Whose device failed may fail again there, where a spare has another. Of those before who were not
// here again yet, places stay theirs.
std::vector<Returning> Roster::returning(Clock::time_point now) const {
  std::vector<Returning> returning;
  for (const Member& member : members_) {
    const bool failed = member.failure && member.failure->code() == ErrorCode::kDeviceLost;
    if (member.state != State::kAbsent && now < member.heard + options_.silence && !failed)
      returning.push_back({member.origin, member.info.worker});
  }
  for (const Returning& missing : returning_)
    if (is_absent(missing.worker)) returning.push_back(missing);
  return returning;
}

// Why this worker may not take part; empty if it may.
std::string Roster::objection(const Registration& registration) const {
  const Identity& mine = options_.identity;
  const Identity& its = registration.identity;
  if (its.build != mine.build)
    return kerf::format("your build is '{}' and mine is '{}'; run the same executable", its.build,
                        mine.build);
  if (its.instructions != mine.instructions)
    return kerf::format(
        "your arithmetic is '{}' and mine is '{}', so results would differ in their last bits",
        its.instructions, mine.instructions);
  return {};
}

void Roster::refuse(int peer, const std::string& why) {
  server_.send(peer, {ControlType::kRefuse, why});
  server_.forget(peer);
}

void Roster::look_at_processes() {
  for (auto& member : members_) {
    if (!member.process || member.process_end) continue;
    member.process_end = member.process->ended();
    if (!member.process_end) continue;
    member.ended_at = Clock::now();
    server_.unwatch(member.process->descriptor());
  }
}

bool Roster::all(State least) const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.state >= least; });
}

int Roster::joined() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [](const Member& member) {
    return member.state != State::kAbsent;
  }));
}

std::optional<CrewResults> Roster::next_results() {
  if (results_.empty()) return {};
  std::optional<CrewResults> results(std::move(results_.front()));
  results_.pop_front();
  return results;
}

}  // namespace kerf::runtime
