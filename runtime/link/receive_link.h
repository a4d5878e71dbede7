// The receiving side of a channel over a PacketSocket: takes every message once and in order, puts
// chunks together, and gives slots back.
//
// Owned by a LinkEndpoint, guarded by its engine's lock: a ReceiveChannel's calls take it, all
// others are made with it. All numbers in packets are checked here before use.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/channel.h"
#include "runtime/lanes.h"
#include "runtime/link/packet_socket.h"
#include "runtime/link/progress_engine.h"
#include "runtime/link/slot_store.h"
#include "runtime/reliable.h"
#include "runtime/slot_events.h"

namespace kerf::runtime {

class ReceiveLink final : public ReceiveChannel {
 public:
  // Streams given to release() are of `device`. `sums`: payload that travels must carry checksums.
  ReceiveLink(PacketSocket& socket, int peer, std::vector<Lane> lanes, SlotStore& store,
              Device& device, ProgressEngine& engine, bool sums);
  // What is under way in a stream reads our slots.
  ~ReceiveLink() override { read_.wait_all(); }

  std::optional<View> receive(Deadline deadline) override;
  void release(const View& view, Stream* stream) override;
  ChannelCounters counters() const override;

  const std::vector<Lane>& lanes() const { return lanes_; }
  const ChannelCounters& counted() const { return counters_; }
  bool open() const { return memory_ != nullptr; }
  // Reaches for the sender's slots. Throws Error{kUnavailable}.
  void accept(const SlotOffer& offer);
  // Gives back the slots that were released and are read by now.
  void return_read();
  bool has_unread() const { return !unread_.empty(); }
  size_t allocated() const { return memory_ ? memory_->allocated() : 0; }

  // Where the chunk behind `head` is to lie; null if it is not the next one, which is counted.
  std::byte* place(const PacketHeader& head);
  // Its chunk, if any, lies where place() said. Throws Error{kUnavailable} that names the peer if
  // the same chunk has come damaged too often.
  void on_data(const Packet& packet);
  void on_probe(const Packet& packet);

 private:
  struct Arrived {
    SlotName slot;
    size_t bytes = 0;
    Tag tag{};
  };
  struct Unread {
    const Event* done = nullptr;
    int lane = 0;
    int index = 0;
    bool is_read() const { return done == nullptr || done->ready(); }
  };
  void give_back(const Unread& slot);
  // Otherwise counts it, and asks again for what is missing.
  bool is_next(const PacketHeader& head);
  bool is_next_chunk(const PacketHeader& head);
  void on_damaged(const PacketHeader& head);
  void ask_again();
  void send_state();
  std::byte* data(int lane, int index) { return memory_->data() + layout_.offset(lane, index); }

  PacketSocket& socket_;
  const int peer_;
  const std::vector<Lane> lanes_;
  const LaneLayout layout_;
  SlotStore& store_;
  const bool sums_;
  Device& device_;
  std::unique_ptr<SlotMemory> memory_;
  HostRegistration known_;  // to the device
  ProgressEngine& engine_;
  ReceiverSlots held_;
  SlotEvents read_;
  std::deque<Unread> unread_;  // in order of releases
  ReceiveWindow window_;
  uint64_t filled_ = 0;                // bytes that arrived of the message window_.next()
  PacketHeader partial_;               // its first chunk's header
  int damaged_ = 0;                    // times in a row that the next chunk came so
  std::optional<uint64_t> asked_for_;  // the gap that was asked for already
  std::deque<Arrived> arrived_;
  ChannelCounters counters_;
};

}  // namespace kerf::runtime
