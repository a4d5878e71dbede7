// Exactly-once, in-order delivery over a path that is ordered while a connection lives and may lose
// what was under way when it breaks. Pure bookkeeping: no sockets, no clocks, no threads; shared by
// the control plane of zmq/ and the data plane of link/.
//
//   sender    number() each message, keep it until acknowledged(next), resend_from(next) what was
//             lost
//   receiver  see(sequence) says deliver, duplicate (drop, count) or gap (drop, ask again from
//             next())
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace kerf::runtime {

template <class Message>
class SendWindow {
 public:
  uint64_t number(Message message) {
    pending_.push_back(std::move(message));
    return first_ + pending_.size() - 1;
  }
  // All messages below `next` have arrived: calls arrived(message) for each that had not. Numbers
  // beyond what was sent are ignored.
  void acknowledged(uint64_t next) {
    acknowledged(next, [](const Message&) {});
  }
  template <class Arrived>
  void acknowledged(uint64_t next, Arrived&& arrived) {
    while (!pending_.empty() && first_ < next) {
      arrived(pending_.front());
      pending_.pop_front();
      ++first_;
    }
  }
  // Calls send(number, message) again for every unacknowledged message from `next` on.
  template <class Send>
  int64_t resend_from(uint64_t next, Send&& send) {
    int64_t count = 0;
    for (size_t i = 0; i < pending_.size(); ++i)
      if (first_ + i >= next) {
        send(first_ + i, pending_[i]);
        ++count;
      }
    return count;
  }
  bool empty() const { return pending_.empty(); }
  uint64_t next() const { return first_ + pending_.size(); }

 private:
  uint64_t first_ = 0;
  std::deque<Message> pending_;
};

class ReceiveWindow {
 public:
  enum class Verdict { kDeliver, kDuplicate, kGap };
  Verdict see(uint64_t number) {
    if (number < next_) return Verdict::kDuplicate;
    if (number > next_) return Verdict::kGap;
    ++next_;
    return Verdict::kDeliver;
  }
  uint64_t next() const { return next_; }

 private:
  uint64_t next_ = 0;
};

}  // namespace kerf::runtime
