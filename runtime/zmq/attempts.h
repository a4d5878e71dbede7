// What becomes of a client's attempts to reach its server, until that answers. ZeroMQ tells nobody,
// but for the monitor of its socket; and it tries again for ever, but for a handshake that was
// refused, behind which it never does: then the client connects anew from here.
//
//   connected ── handshake ──> refused (this key), no mechanism in common, hung up, or silent
//
// Owned by the client, which is destroyed behind it, and made before that connects. One thread.
// Whoever owns it looks now and then: the monitor's queue holds 2,000 events, and one more stops
// ZeroMQ's own thread; an attempt has two, and there is one a second.
#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <zmq.hpp>

#include "runtime/time.h"
#include "runtime/unanswered.h"

namespace kerf::runtime {

class Attempts {
 public:
  struct Aim {
    std::string address;
    std::string keys;  // a folder; empty: none are shown
  };

  // Throws Error{kUnavailable}.
  Attempts(zmq::context_t& context, zmq::socket_t& client, Aim aim, Unanswered unanswered);
  ~Attempts();
  Attempts(const Attempts&) = delete;
  Attempts& operator=(const Attempts&) = delete;

  // Takes in what happened, tells if it is time, and connects anew where that is left to us.
  void look();
  // What stands between the two; empty where nobody is there, which needs no more words.
  std::string hindrance() const;

 private:
  // Of several the last of these, which says most.
  enum class Hindrance { kNobody, kSilent, kHungUp, kOtherMechanism, kRefused };

  void take_event(uint16_t event, uint32_t value);
  void connect_anew();
  Clock::time_point tell_at() const;
  std::string note() const;

  zmq::socket_t& client_;
  zmq::socket_t events_;
  const Aim aim_;
  const Unanswered unanswered_;
  const std::shared_future<std::string> without_way_;  // to a host of a name
  const Clock::time_point begin_ = Clock::now();
  Hindrance seen_ = Hindrance::kNobody;
  bool told_ = false;
  Clock::time_point again_at_ = Clock::time_point::max();
};

}  // namespace kerf::runtime
