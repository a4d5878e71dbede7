#include "runtime/spares.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/store_messages.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

// More than a lost connection takes to be noticed.
constexpr auto kTooEarly = 1s;

}  // namespace

void Spares::add(int peer, Registration registration) {
  const auto now = Clock::now();
  spares_.push_back({peer, std::move(registration), now, now});
  server_.send(peer, {ControlType::kSpare, {}});
}

bool Spares::hear(const ControlServer::Incoming& incoming) {
  const auto spare = std::find_if(spares_.begin(), spares_.end(),
                                  [&](const Spare& each) { return each.peer == incoming.peer; });
  if (spare == spares_.end()) return false;
  spare->broken = incoming.disconnected;
  if (incoming.disconnected) return true;
  spare->heard = Clock::now();
  if (incoming.message.type == ControlType::kBye) {  // of which it is yet to hear that it is here
    spares_.erase(spare);
    return true;
  }
  try {
    if (incoming.message.type != ControlType::kReport)
      throw Error(ErrorCode::kProtocol, "a spare only reports");
    if (server_.unacknowledged_answers(spare->peer) > most_unacknowledged(0))
      throw Error(ErrorCode::kProtocol, "it never says that it has our answers");
    server_.send(spare->peer, clock_answer(decode<Report>(incoming.message.payload)));
  } catch (const Error&) {
    server_.forget(spare->peer);
    spares_.erase(spare);
  }
  return true;
}

void Spares::place(const std::function<bool(int peer, const Registration& registration)>& place) {
  std::erase_if(spares_, [&](const Spare& spare) {
    if (Clock::now() < spare.heard + silence_)
      return !spare.broken && place(spare.peer, spare.registration);
    server_.forget(spare.peer);
    return true;
  });
}

void Spares::refuse(const std::function<std::string(const Registration& registration)>& why) {
  std::erase_if(spares_, [&](const Spare& spare) {
    if (spare.broken) return false;
    const std::string told = why(spare.registration);
    if (told.empty() || Clock::now() < spare.since + kTooEarly) return false;
    server_.send(spare.peer, {ControlType::kRefuse, told});
    server_.forget(spare.peer);
    return true;
  });
}

void Spares::forgive(Clock::duration by) {
  for (Spare& spare : spares_) {
    spare.since += by;
    spare.heard += by;
  }
}

std::vector<int> Spares::peers() const {
  std::vector<int> peers;
  for (const Spare& spare : spares_)
    if (!spare.broken) peers.push_back(spare.peer);
  return peers;
}

}  // namespace kerf::runtime
