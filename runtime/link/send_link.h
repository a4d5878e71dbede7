// The sending side of a channel over a PacketSocket: slots, credits, and everything sent kept until
// it has arrived.
//
// Owned by a LinkEndpoint, guarded by its engine's lock: a SendChannel's calls take it, all others
// are made with it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/channel.h"
#include "runtime/lanes.h"
#include "runtime/link/packet_socket.h"
#include "runtime/link/progress_engine.h"
#include "runtime/link/slot_store.h"
#include "runtime/reliable.h"
#include "runtime/slot_events.h"

namespace kerf::runtime {

class SendLink final : public SendChannel {
 public:
  // Streams given to commit() are of `device`. `sums`: payload that travels carries checksums.
  SendLink(PacketSocket& socket, int peer, std::vector<Lane> lanes, SlotStore& store,
           Device& device, ProgressEngine& engine, bool sums);
  // What is under way in a stream writes to our slots.
  ~SendLink() override { written_.wait_all(); }

  std::optional<Slot> acquire(int lane, size_t bytes, Deadline deadline) override;
  void commit(const Slot& slot, const Tag& tag, Stream* stream) override;
  void abandon(const Slot& slot) override;
  void retain(const Slot& slot) override;
  void retire(const Slot& slot) override;
  ChannelCounters counters() const override;

  const std::vector<Lane>& lanes() const { return lanes_; }
  SlotMemory& memory() { return *memory_; }
  const ChannelCounters& counted() const { return counters_; }
  bool all_released() const { return book_.under_way() == 0; }

  // Sends what was committed and is written by now.
  void send_written();
  bool has_unwritten() const { return !outbox_.empty(); }

  void on_credit(const Packet& packet);
  void on_state(const Packet& packet);
  // Asks the peer what it has, if something has been under way since before `before`.
  void probe(Clock::time_point before);

 private:
  struct Sent {
    SlotName slot;
    size_t bytes = 0;
    Tag tag{};
  };
  struct Unwritten {
    const Event* ready = nullptr;
    Sent message;
    bool is_written() const { return ready == nullptr || ready->ready(); }
  };
  void send_first_time(const Sent& message);
  void send(uint64_t sequence, const Sent& message);
  std::byte* data(const SlotName& slot) {
    return memory_->data() + layout_.offset(slot.lane, slot.index);
  }

  PacketSocket& socket_;
  const int peer_;
  const std::vector<Lane> lanes_;
  const LaneLayout layout_;
  const bool payload_travels_;
  const bool sums_;
  std::unique_ptr<SlotMemory> memory_;
  const HostRegistration known_;  // to the device
  ProgressEngine& engine_;
  SenderSlots book_;
  SendWindow<Sent> window_;
  SlotEvents written_;
  std::deque<Unwritten> outbox_;  // in order of commits
  Clock::time_point progress_{};  // the last message, credit or probe
  // Where in the socket's queue begins what was sent again last.
  std::optional<uint64_t> copies_begin_;
  ChannelCounters counters_;
};

}  // namespace kerf::runtime
