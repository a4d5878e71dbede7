#include "runtime/link/send_link.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/link/with_peer.h"

namespace kerf::runtime {

SendLink::SendLink(PacketSocket& socket, int peer, std::vector<Lane> lanes, SlotStore& store,
                   Device& device, ProgressEngine& engine, bool sums)
    : socket_(socket),
      peer_(peer),
      lanes_(std::move(lanes)),
      layout_(lanes_),
      payload_travels_(store.payload_travels()),
      sums_(sums),
      memory_(with_peer(socket.label(), peer, "slots for",
                        [&] { return store.make_outgoing(layout_.total_bytes()); })),
      known_(with_peer(socket.label(), peer, "slots for",
                       [&] { return make_known(*memory_, layout_.total_bytes(), device); })),
      engine_(engine),
      book_(layout_),
      written_(layout_, device) {}

std::optional<Slot> SendLink::acquire(int lane, size_t bytes, Deadline deadline) {
  auto lock = engine_.enter();
  socket_.check_interrupted();
  KERF_CHECK(lane >= 0 && lane < layout_.lanes(), "lane {} does not exist", lane);
  KERF_CHECK(bytes <= layout_.slot_bytes(lane), "{} bytes do not fit lane {} with slots of {}",
             bytes, lane, layout_.slot_bytes(lane));
  const auto is_free = [&] { return book_.has_free(lane); };
  if (!is_free() && !engine_.serve(lock, is_free, deadline)) return std::nullopt;
  const int index = *book_.take(lane);
  return Slot{lane, index, bytes, data({lane, index, 0})};
}

void SendLink::commit(const Slot& slot, const Tag& tag, Stream* stream) {
  auto lock = engine_.enter();
  const SlotName name{slot.lane, slot.index, window_.next() + outbox_.size()};
  book_.committed(name);
  ++counters_.messages;
  counters_.bytes += static_cast<int64_t>(slot.bytes);
  const Unwritten message{written_.record(slot.lane, slot.index, stream), {name, slot.bytes, tag}};
  if (outbox_.empty() && message.is_written()) {
    send_first_time(message.message);
    return engine_.send_on(lock);
  }
  outbox_.push_back(message);
  engine_.await_device(lock);
}

void SendLink::abandon(const Slot& slot) {
  const auto lock = engine_.enter();
  book_.abandoned(slot.lane, slot.index);
}

void SendLink::retain(const Slot& slot) {
  const auto lock = engine_.enter();
  book_.retained(slot.lane, slot.index);
}

void SendLink::retire(const Slot& slot) {
  const auto lock = engine_.enter();
  book_.retired(slot.lane, slot.index);
}

ChannelCounters SendLink::counters() const {
  const auto lock = engine_.lock();
  return counters_;
}

void SendLink::send_written() {
  for (; !outbox_.empty() && outbox_.front().is_written(); outbox_.pop_front())
    send_first_time(outbox_.front().message);
}

void SendLink::send_first_time(const Sent& message) {
  window_.number(message);
  send(message.slot.sequence, message);
  progress_ = Clock::now();
}

void SendLink::send(uint64_t sequence, const Sent& message) {
  PacketHeader head;
  head.kind = PacketKind::kData;
  head.sequence = sequence;
  head.bytes = message.bytes;
  head.lane = message.slot.lane;
  head.slot = message.slot.index;
  head.tag = message.tag;
  if (!payload_travels_) return socket_.send(peer_, head);
  if (sums_) head.flags = kSummed;
  const std::byte* from = data(message.slot);
  do {
    const size_t chunk = std::min(kChunkBytes, message.bytes - head.offset);
    socket_.send_pinned(peer_, head, from + head.offset, chunk);
    head.offset += chunk;
  } while (head.offset < message.bytes);
}

void SendLink::on_credit(const Packet& packet) {
  const PacketHeader& head = packet.head;
  // What was never sent was never received.
  if (head.sequence > window_.next() || head.released >= window_.next() ||
      !book_.released({head.lane, head.slot, head.released})) {
    ++counters_.dropped;
    return;
  }
  window_.acknowledged(head.sequence);
  progress_ = Clock::now();
}

void SendLink::on_state(const Packet& packet) {
  auto held = decode_slots(packet.body);
  const uint64_t next = packet.head.sequence;
  if (!held || next > window_.next()) {
    ++counters_.dropped;
    return;
  }
  std::ranges::sort(*held, {}, &SlotName::sequence);
  window_.acknowledged(next);
  book_.released_all_but(next, *held);
  // Copies that have not begun to leave will come behind all that made the peer ask. One that asks
  // and takes nothing gets no more of them.
  const PacketSocket::Queue queue = socket_.queue(peer_);
  if (copies_begin_ && queue.taken <= *copies_begin_) return;
  const int64_t copies = window_.resend_from(
      next, [&](uint64_t sequence, const Sent& message) { send(sequence, message); });
  if (copies > 0) copies_begin_ = queue.given;
  counters_.resent += copies;
  progress_ = Clock::now();
}

void SendLink::probe(Clock::time_point before) {
  // What has not been sent yet waits for nobody but the device.
  const bool is_any_sent = book_.under_way() > outbox_.size();
  if (!is_any_sent || progress_ > before) return;
  PacketHeader head;
  head.kind = PacketKind::kProbe;
  head.sequence = window_.next();
  socket_.send(peer_, head);
  progress_ = Clock::now();
  ++counters_.control_messages;
}

}  // namespace kerf::runtime
