// One end of a control connection: numbering, acknowledging, sending again, splitting.
//
// A link turns messages into frames and frames into messages so that each arrives once and in order
// over connections that break. Every frame's payload opens with an acknowledgement (u64: the next
// number expected from the other end), so that traffic acknowledges traffic; a lone acknowledgement
// is sent only after 64 messages or 20 ms without traffic to carry it. An end that hears nothing
// for 300 ms probes; the answer reveals what was lost. A stranger's probe gets no answer: an end
// that has never heard of the other sends its first messages again by and by.
//
// No socket and no thread in here: `emit` puts a frame on the wire. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/control.h"
#include "runtime/reliable.h"
#include "runtime/wire.h"

namespace kerf::runtime {

class ControlLink {
 public:
  using Emit = std::function<void(const std::string& frame)>;

  // Takes in messages of at most `takes` bytes, whatever their type: only a worker is sent jobs.
  explicit ControlLink(Emit emit, size_t takes = kMaxStartMessage);

  // Throws Error{kInternal} above largest_of(its type).
  void send(const ControlMessage& message);
  // `frame` passed parse_frame. Returns a message when this frame completes it.
  std::optional<ControlMessage> receive(const Frame& frame);
  // Acknowledges and probes what is due; call at next_tick().
  void tick(Clock::time_point now);
  Clock::time_point next_tick() const { return std::min(acknowledge_at_, probe_at_); }
  // Acknowledges at once what is owed: before an end that leaves no time for tick().
  void acknowledge_now();
  // Asks the other end to say at once what it has.
  void probe();
  bool all_acknowledged() const { return unacknowledged_.empty(); }
  // Bytes that are kept of answers, of which the other end has as many as it asks for.
  int64_t unacknowledged_answers() const { return kept_answers_; }
  const ControlCounters& counters() const { return counters_; }

  // Whether a frame of a stranger may open a link.
  static bool opens(const Frame& frame);
  // Whether it is a message, or the last piece of one, and not of the link itself.
  static bool ends_message(const Frame& frame);

 private:
  void emit_bare(uint16_t type);
  std::string make(uint16_t type, uint64_t sequence, std::string_view piece);
  std::optional<ControlMessage> deliver(const Frame& frame);
  void send_again(uint64_t from);
  void ask_again();
  void owe_acknowledgement();

  Emit emit_;
  size_t takes_;
  struct Kept {
    std::string frame;
    int64_t of_answer = 0;  // bytes, where it answers one of the other end
  };
  SendWindow<Kept> unacknowledged_;
  int64_t kept_answers_ = 0;
  ReceiveWindow received_;
  ControlMessage partial_;  // pieces so far of a message above 1 MiB
  bool oversized_ = false;  // skips the rest of a message that is too large
  int owed_ = 0;            // messages that came since the last acknowledgement
  Clock::time_point acknowledge_at_ = Clock::time_point::max();
  Clock::time_point probe_at_;
  Clock::time_point asked_again_{};
  bool heard_ = false;
  int unheard_probes_ = 0;
  std::string body_;  // reused
  ControlCounters counters_;
};

}  // namespace kerf::runtime
