// A channel over sockets between two workers, and an intruder who sends to the second in the name
// of the first.
#pragma once

#include <string>

#include "runtime/link/packet_socket.h"
#include "tests/conformance/channel_fixture.h"
#include "tests/conformance/intruder.h"

namespace kerf::runtime {

// What worker 0 would send as message `sequence` of 8 bytes in (lane 0, slot 0).
inline PacketHeader from_worker_0(PacketKind kind, uint64_t sequence) {
  PacketHeader head;
  head.kind = kind;
  head.epoch = 1;
  head.from = 0;
  head.token = kTestToken;
  head.sequence = sequence;
  head.bytes = 8;
  return head;
}

class Besieged : public HostileChannel {
 protected:
  Besieged() : net_(GetParam(), 2, {{64, 2}}), intruder_(net_[1].address()) {}

  // Waits until worker 1 has dropped `count` messages of nobody's.
  void expect_strangers(int64_t count) {
    const Deadline deadline = after(5s);
    while (net_[1].dropped() < count && Clock::now() < deadline)
      EXPECT_FALSE(net_.receiver(0, 1).receive(after(10ms)));
    EXPECT_EQ(net_[1].dropped(), count);
    EXPECT_GE(net_[1].counters().dropped, count) << "and in the sum";
  }
  // Waits until worker 1's channel from worker 0 has dropped `count` messages.
  void expect_dropped(int64_t count) {
    const Deadline deadline = after(5s);
    while (net_.receiver(0, 1).counters().dropped < count && Clock::now() < deadline)
      EXPECT_FALSE(net_.receiver(0, 1).receive(after(10ms)));
    EXPECT_EQ(net_.receiver(0, 1).counters().dropped, count);
  }
  void expect_it_works() {
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(send_message(net_.sender(0, 1), 0, 64, 100 + i));
      const auto view = net_.receiver(0, 1).receive(after(10s));
      ASSERT_TRUE(view);
      EXPECT_EQ(view->tag[0], 100 + i);
      EXPECT_TRUE(holds(*view, 100 + i));
      net_.receiver(0, 1).release(*view);
    }
    EXPECT_TRUE(net_[0].drain(after(10s)));
  }
  // The body that a chunk of `count` bytes has with this transport.
  std::string chunk(size_t count) const {
    return GetParam() == TransportKind::kShm ? std::string{} : std::string(count, 'x');
  }

  Net net_;
  Intruder intruder_;
};

}  // namespace kerf::runtime
