#include "schedmp/training/mailbox.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "partitioner/blocks.h"
#include "runtime/error.h"
#include "schedmp/training/lanes.h"

namespace kerf::schedmp {

using runtime::Clock;

namespace {

// Of a message.
constexpr std::string_view kOfTheNext = " of the next step";

// How long one call to the transport may block; the waiting itself has no limit here, because the
// scheduler watches over progress and interrupts the endpoint.
constexpr auto kPatience = std::chrono::seconds(1);

// Says what is awaited while it lives, and counts the time; `what` outlives it.
class Waiting {
 public:
  Waiting(runtime::Workplace& workplace, const std::string& what, int peer, int64_t& waited_ns)
      : workplace_(workplace), what_(what), waited_ns_(waited_ns), begin_(runtime::now_ns()) {
    workplace_.activity.awaits(what_, workplace_.in_crew(peer));
  }
  ~Waiting() {
    workplace_.activity.awaits_nothing();
    waited_ns_ += runtime::now_ns() - begin_;
  }
  Waiting(const Waiting&) = delete;

 private:
  runtime::Workplace& workplace_;
  const std::string& what_;
  int64_t& waited_ns_;
  int64_t begin_;
};

}  // namespace

Mailbox::Mailbox(const partitioner::Model& model, const partitioner::Plan& plan,
                 const std::vector<int32_t>& credits, runtime::Workplace& workplace)
    : model_(model), plan_(plan), workplace_(workplace), lanes_(lanes_of_routes(plan)) {
  KERF_CHECK(credits.size() == plan.routes.size());
  said_.reserve(256);
  names_.resize(plan.routes.size());
  for (const partitioner::Route& each : plan.routes)
    if (sender_of(each.id) == workplace.worker || receiver_of(each.id) == workplace.worker)
      names_[static_cast<size_t>(each.id)] = partitioner::name_of(model, each);
  size_t most_early = 0;
  for (const partitioner::Route& each : plan.routes)
    if (receiver_of(each.id) == workplace.worker)
      most_early += static_cast<size_t>(credits[static_cast<size_t>(each.id)]);
  early_.reserve(most_early);
  make_own_lanes(credits);
  begin(0);
}

void Mailbox::make_own_lanes(const std::vector<int32_t>& credits) {
  const int64_t samples = plan_.largest_micro_batch();
  size_t bytes = 0;
  for (const partitioner::Route& each : plan_.routes) {
    if (sender_of(each.id) != workplace_.worker || !own(each.id)) continue;
    OwnLane& lane = own_[each.id];
    const auto slots = static_cast<size_t>(credits[static_cast<size_t>(each.id)]);
    lane.slots.assign(slots, OwnLane::State::kFree);
    lane.retained.assign(slots, 0);
    lane.tags.resize(slots);
    lane.bytes.resize(slots);
    lane.slot_bytes = static_cast<size_t>(
        partitioner::whole_blocks(static_cast<int64_t>(message_bytes(model_, each, samples))));
    bytes += slots * lane.slot_bytes;
  }
  own_memory_ = workplace_.device.allocate(bytes);
  std::byte* at = own_memory_.data();
  for (auto& [route, lane] : own_) {
    lane.memory = at;
    at += lane.slots.size() * lane.slot_bytes;
  }
}

void Mailbox::begin(int64_t sequence) {
  sequence_ = sequence;
  waited_ns_ = bytes_in_ = 0;
  sent_.resize(plan_.routes.size());
  for (size_t i = 0; i < sent_.size(); ++i) sent_[i] = {plan_.routes[i].id, 0, 0};
}

int Mailbox::sender_of(int index) const {
  return plan_.binding[static_cast<size_t>(route(index).from)];
}

int Mailbox::receiver_of(int index) const {
  return plan_.binding[static_cast<size_t>(route(index).to)];
}

int32_t Mailbox::sequence_of(const Site& site) const {
  return static_cast<int32_t>((sequence_ + site.step) & 0x7fffffff);
}

runtime::Tag Mailbox::tag_of(int index, const Site& site) const {
  return {index, site.micro_batch, sequence_of(site), 0};
}

std::string Mailbox::name_of(int index, const Site& site) const {
  std::string name = partitioner::name_of(model_, route(index));
  if (site.micro_batch < 0) return name;
  return kerf::format("{} of micro-batch {}{}", name, site.micro_batch,
                      site.step > 0 ? kOfTheNext : "");
}

// In memory that is kept: waiting is a part of a steady step.
const std::string& Mailbox::say(std::string_view before, int index, const Site& site) {
  said_.assign(before);
  said_ += names_[static_cast<size_t>(index)];
  if (site.micro_batch < 0) return said_;
  std::array<char, 16> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), site.micro_batch).ptr;
  said_ += " of micro-batch ";
  said_.append(digits.data(), end);
  if (site.step > 0) said_ += kOfTheNext;
  return said_;
}

uint64_t Mailbox::flow_of(int index, const Site& site) const {
  // Other replicas' are above all of this one's.
  constexpr int kReplicaBit = 40;
  const uint64_t replica = static_cast<uint64_t>(workplace_.first_worker) << kReplicaBit;
  // Of a route in a step: one for each micro-batch, and one for the step itself.
  const auto each = static_cast<uint64_t>(plan_.micro_batches) + 1;
  const uint64_t before =
      static_cast<uint64_t>(sequence_of(site)) * plan_.routes.size() + static_cast<uint64_t>(index);
  return replica + before * each + static_cast<uint64_t>(site.micro_batch + 1) + 1;
}

runtime::Slot Mailbox::acquire_own(int index, size_t bytes) {
  OwnLane& lane = own_.at(index);
  const auto free = std::find(lane.slots.begin(), lane.slots.end(), OwnLane::State::kFree);
  KERF_CHECK(free != lane.slots.end(), "no slot is free for {}, and nobody else can free one",
             partitioner::name_of(model_, route(index)));
  KERF_CHECK(bytes <= lane.slot_bytes);
  *free = OwnLane::State::kTaken;
  const auto slot = static_cast<size_t>(free - lane.slots.begin());
  return {0, static_cast<int>(slot), bytes, lane.memory + slot * lane.slot_bytes};
}

runtime::View Mailbox::take_own(int index, const runtime::Tag& tag) {
  OwnLane& lane = own_.at(index);
  for (size_t slot = 0; slot < lane.slots.size(); ++slot) {
    if (lane.slots[slot] != OwnLane::State::kCommitted || lane.tags[slot] != tag) continue;
    lane.slots[slot] = OwnLane::State::kHeld;
    return {
        0,      static_cast<int>(slot), lane.bytes[slot], tag, lane.memory + slot * lane.slot_bytes,
        nullptr};
  }
  KERF_CHECK(false, "{} was never sent, and nobody else can send it",
             partitioner::name_of(model_, route(index)));
  return {};
}

runtime::Slot Mailbox::acquire(int index, const Site& site, size_t bytes) {
  if (own(index)) return acquire_own(index, bytes);
  const int peer = receiver_of(index);
  const int lane = lanes_[static_cast<size_t>(index)];
  runtime::SendChannel& channel = workplace_.endpoint.sender(workplace_.in_crew(peer));
  if (auto slot = channel.acquire(lane, bytes, Clock::now())) return *slot;
  const Waiting waiting(workplace_, say("a free slot for ", index, site), peer, waited_ns_);
  while (true)
    if (auto slot = channel.acquire(lane, bytes, runtime::after(kPatience))) return *slot;
}

void Mailbox::commit(int index, const Site& site, const runtime::Slot& slot, bool retained) {
  if (own(index)) {
    OwnLane& lane = own_.at(index);
    const auto at = static_cast<size_t>(slot.index);
    lane.slots[at] = OwnLane::State::kCommitted;
    lane.retained[at] = retained ? 1 : 0;
    lane.tags[at] = tag_of(index, site);
    lane.bytes[at] = slot.bytes;
  } else {
    runtime::SendChannel& channel =
        workplace_.endpoint.sender(workplace_.in_crew(receiver_of(index)));
    if (retained) channel.retain(slot);
    channel.commit(slot, tag_of(index, site), &workplace_.stream);
  }
  RouteCount& count = sent_[static_cast<size_t>(index)];
  ++count.messages;
  count.bytes += static_cast<int64_t>(slot.bytes);
}

void Mailbox::retire(int index, const runtime::Slot& slot) {
  if (!own(index))
    return workplace_.endpoint.sender(workplace_.in_crew(receiver_of(index))).retire(slot);
  OwnLane& lane = own_.at(index);
  const auto at = static_cast<size_t>(slot.index);
  lane.retained[at] = 0;
  if (lane.slots[at] == OwnLane::State::kReleased) lane.slots[at] = OwnLane::State::kFree;
}

runtime::View Mailbox::take(int index, const Site& site, size_t bytes) {
  const runtime::View message =
      own(index) ? take_own(index, tag_of(index, site)) : await(index, site);
  if (message.bytes != bytes)
    throw Error(ErrorCode::kProtocol,
                kerf::format("{} bytes came for {}, expected {}", message.bytes,
                             name_of(index, site), bytes),
                kerf::format("worker {}", workplace_.in_crew(sender_of(index))));
  return message;
}

runtime::View Mailbox::await(int index, const Site& site) {
  const int peer = sender_of(index);
  const runtime::Tag tag = tag_of(index, site);
  // A route has one sender, so a tag says who sent it.
  for (runtime::View& early : early_)
    if (early.tag == tag) {
      const runtime::View view = early;
      early = early_.back();
      early_.pop_back();
      return view;
    }
  runtime::ReceiveChannel& channel = workplace_.endpoint.receiver(workplace_.in_crew(peer));
  std::optional<Waiting> waiting;
  std::optional<runtime::View> view = channel.receive(Clock::now());
  while (true) {
    if (view) {
      bytes_in_ += static_cast<int64_t>(view->bytes);
      if (view->tag == tag) return *view;
      early_.push_back(*view);
      view = channel.receive(Clock::now());
      continue;
    }
    if (!waiting) waiting.emplace(workplace_, say("", index, site), peer, waited_ns_);
    view = channel.receive(runtime::after(kPatience));
  }
}

void Mailbox::release(int index, const runtime::View& view) {
  if (!own(index))
    return workplace_.endpoint.receiver(workplace_.in_crew(sender_of(index)))
        .release(view, &workplace_.stream);
  OwnLane& lane = own_.at(index);
  const auto at = static_cast<size_t>(view.index);
  lane.slots[at] = lane.retained[at] != 0 ? OwnLane::State::kReleased : OwnLane::State::kFree;
}

void Mailbox::sent(std::vector<RouteCount>& counts) const {
  counts.clear();
  for (const RouteCount& count : sent_)
    if (count.messages > 0) counts.push_back(count);
}

}  // namespace kerf::schedmp
