#include "runtime/link/receive_link.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/link/with_peer.h"

namespace kerf::runtime {
namespace {

// That chance damages a chunk so often is beyond belief: something on the way does.
constexpr int kDamagedAtMost = 32;

}  // namespace

ReceiveLink::ReceiveLink(PacketSocket& socket, int peer, std::vector<Lane> lanes, SlotStore& store,
                         Device& device, ProgressEngine& engine, bool sums)
    : socket_(socket),
      peer_(peer),
      lanes_(std::move(lanes)),
      layout_(lanes_),
      store_(store),
      sums_(sums),
      device_(device),
      engine_(engine),
      held_(layout_),
      read_(layout_, device) {}

void ReceiveLink::accept(const SlotOffer& offer) {
  with_peer(socket_.label(), peer_, "slots of", [&] {
    memory_ = store_.make_incoming(layout_.total_bytes(), offer);
    known_ = make_known(*memory_, layout_.total_bytes(), device_);
  });
}

std::optional<View> ReceiveLink::receive(Deadline deadline) {
  auto lock = engine_.enter();
  socket_.check_interrupted();
  const auto is_there = [this] { return !arrived_.empty(); };
  if (!is_there() && !engine_.serve(lock, is_there, deadline)) return std::nullopt;
  const Arrived message = arrived_.front();
  arrived_.pop_front();
  ++counters_.messages;
  counters_.bytes += static_cast<int64_t>(message.bytes);
  const auto [lane, index, sequence] = message.slot;
  return View{lane, index, message.bytes, message.tag, data(lane, index), nullptr, this};
}

void ReceiveLink::release(const View& view, Stream* stream) {
  KERF_CHECK(view.owner == this, "a view was released to a channel that it did not come from");
  auto lock = engine_.enter();
  const auto same = [&](const Unread& slot) {
    return slot.lane == view.lane && slot.index == view.index;
  };
  KERF_CHECK(held_.holds(view.lane, view.index) && std::ranges::none_of(unread_, same),
             "a view was released twice");
  const Unread slot{read_.record(view.lane, view.index, stream), view.lane, view.index};
  // At once: the thread may go and wait for something else, and the sender for this credit.
  if (unread_.empty() && slot.is_read()) {
    give_back(slot);
    return engine_.send_on(lock);
  }
  unread_.push_back(slot);
  engine_.await_device(lock);
}

ChannelCounters ReceiveLink::counters() const {
  const auto lock = engine_.lock();
  return counters_;
}

void ReceiveLink::return_read() {
  for (; !unread_.empty() && unread_.front().is_read(); unread_.pop_front())
    give_back(unread_.front());
}

void ReceiveLink::give_back(const Unread& slot) {
  PacketHeader head;
  head.kind = PacketKind::kCredit;
  head.sequence = window_.next();
  head.lane = slot.lane;
  head.slot = slot.index;
  head.released = held_.release(slot.lane, slot.index);
  socket_.send(peer_, head);
  ++counters_.control_messages;
}

std::byte* ReceiveLink::place(const PacketHeader& head) {
  if (!is_next(head)) return nullptr;
  if (filled_ == 0) partial_ = head;
  return data(head.lane, head.slot) + filled_;
}

void ReceiveLink::on_data(const Packet& packet) {
  const PacketHeader& head = packet.head;
  if (packet.is_damaged) return on_damaged(head);
  if (!is_next(head)) return;
  damaged_ = 0;
  filled_ += packet.body.size();
  if (store_.payload_travels() && filled_ < head.bytes) return;
  window_.see(head.sequence);
  filled_ = 0;
  asked_for_.reset();
  const SlotName slot{head.lane, head.slot, head.sequence};
  held_.hold(slot);
  arrived_.push_back({slot, head.bytes, head.tag});
}

void ReceiveLink::on_damaged(const PacketHeader& head) {
  ++counters_.dropped;
  if (++damaged_ == kDamagedAtMost)
    throw Error(ErrorCode::kUnavailable,
                kerf::format("{} bytes of a message of worker {} came damaged {} times in a row: "
                             "look for what changes them between the two hosts",
                             head.body_bytes, peer_, damaged_),
                socket_.label());
  asked_for_.reset();  // what was asked for has come
  ask_again();
}

bool ReceiveLink::is_next(const PacketHeader& head) {
  const auto drop = [this] {
    ++counters_.dropped;
    return false;
  };
  if (!open() || !layout_.fits(head.lane, head.slot, head.bytes)) return drop();
  if (head.sequence < window_.next()) return drop();
  if (head.sequence > window_.next()) {
    ask_again();
    return drop();
  }
  if (held_.holds(head.lane, head.slot)) return drop();
  const bool next = store_.payload_travels() ? is_next_chunk(head) : head.body_bytes == 0;
  return next || drop();
}

bool ReceiveLink::is_next_chunk(const PacketHeader& head) {
  if (sums_ && (head.flags & kSummed) == 0) return false;
  const bool same = head.lane == partial_.lane && head.slot == partial_.slot &&
                    head.bytes == partial_.bytes && head.tag == partial_.tag;
  if (head.offset != filled_ || (filled_ > 0 && !same)) {
    if (head.offset > filled_) ask_again();
    return false;
  }
  return head.body_bytes <= head.bytes - filled_;
}

void ReceiveLink::on_probe(const Packet& packet) {
  if (open() && packet.head.sequence >= window_.next()) return send_state();
  ++counters_.dropped;
}

// Once per gap; should that get lost, the sender's probe finds out.
void ReceiveLink::ask_again() {
  if (asked_for_ == window_.next()) return;
  asked_for_ = window_.next();
  send_state();
}

void ReceiveLink::send_state() {
  PacketHeader head;
  head.kind = PacketKind::kState;
  head.sequence = window_.next();
  socket_.send(peer_, head, encode_slots(held_.all()));
  ++counters_.control_messages;
}

}  // namespace kerf::runtime
