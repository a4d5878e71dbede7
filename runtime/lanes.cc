#include "runtime/lanes.h"

#include <algorithm>
#include <limits>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

constexpr size_t kSlotAlignment = 64;
constexpr size_t kPage = 4096;
constexpr size_t kLimit = std::numeric_limits<size_t>::max() / 4;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

LaneLayout::LaneLayout(const std::vector<Lane>& lanes) {
  for (const Lane& lane : lanes) {
    KERF_CHECK(lane.slots >= 0, "a lane of {} slots", lane.slots);
    KERF_CHECK(lane.slot_bytes < kLimit, "a slot of {} bytes", lane.slot_bytes);
    // An empty slot still has an address of its own.
    const size_t stride = round_up(std::max<size_t>(lane.slot_bytes, 1), kSlotAlignment);
    KERF_CHECK(lane.slots == 0 || stride <= (kLimit - total_bytes_) / lane.slots,
               "lanes beyond the address space");
    lanes_.push_back({lane.slot_bytes, stride, total_bytes_, total_slots_, lane.slots});
    total_bytes_ += stride * lane.slots;
    total_slots_ += lane.slots;
  }
  total_bytes_ = round_up(total_bytes_, kPage);
}

bool LaneLayout::contains(int64_t lane, int64_t index) const {
  return lane >= 0 && lane < lanes() && index >= 0 && index < lanes_[lane].slots;
}

bool LaneLayout::fits(int64_t lane, int64_t index, uint64_t bytes) const {
  return contains(lane, index) && bytes <= lanes_[lane].slot_bytes;
}

size_t LaneLayout::offset(int lane, int index) const {
  KERF_CHECK(contains(lane, index), "slot {} of lane {} does not exist", index, lane);
  return lanes_[lane].begin + lanes_[lane].stride * index;
}

SenderSlots::SenderSlots(const LaneLayout& layout)
    : layout_(layout), entries_(layout.total_slots()), free_(layout.lanes()) {
  for (int lane = 0; lane < layout.lanes(); ++lane)
    for (int index = layout.slots(lane) - 1; index >= 0; --index) free_[lane].push_back(index);
}

std::optional<int> SenderSlots::take(int lane) {
  KERF_CHECK(lane >= 0 && lane < layout_.lanes(), "lane {} does not exist", lane);
  if (free_[lane].empty()) return std::nullopt;
  const int index = free_[lane].back();
  free_[lane].pop_back();
  entries_[layout_.ordinal(lane, index)].state = State::kTaken;
  return index;
}

SenderSlots::Entry& SenderSlots::entry(int lane, int index) {
  KERF_CHECK(layout_.contains(lane, index), "slot {} of lane {} does not exist", index, lane);
  return entries_[layout_.ordinal(lane, index)];
}

void SenderSlots::free(int lane, int index) {
  entries_[layout_.ordinal(lane, index)] = {};
  free_[lane].push_back(index);
}

void SenderSlots::committed(const SlotName& slot) {
  Entry& each = entry(slot.lane, slot.index);
  KERF_CHECK(each.state == State::kTaken, "slot {} of lane {} was not acquired", slot.index,
             slot.lane);
  each.state = State::kUnderWay;
  each.sequence = slot.sequence;
  ++under_way_;
}

void SenderSlots::abandoned(int lane, int index) {
  KERF_CHECK(entry(lane, index).state == State::kTaken, "slot {} of lane {} was not acquired",
             index, lane);
  free(lane, index);
}

void SenderSlots::retained(int lane, int index) {
  Entry& each = entry(lane, index);
  KERF_CHECK(each.state == State::kTaken, "slot {} of lane {} was not acquired", index, lane);
  each.retained = true;
}

void SenderSlots::retired(int lane, int index) {
  Entry& each = entry(lane, index);
  KERF_CHECK(each.retained && each.state != State::kTaken, "slot {} of lane {} was not retained",
             index, lane);
  each.retained = false;
  if (each.state == State::kReleased) free(lane, index);
}

bool SenderSlots::released(const SlotName& slot) {
  if (!layout_.contains(slot.lane, slot.index)) return false;
  Entry& each = entry(slot.lane, slot.index);
  if (each.state != State::kUnderWay || each.sequence != slot.sequence) return false;
  each.state = State::kReleased;
  if (!each.retained) free(slot.lane, slot.index);
  --under_way_;
  return true;
}

size_t SenderSlots::released_all_but(uint64_t next, const std::vector<SlotName>& held) {
  size_t count = 0;
  for (int lane = 0; lane < layout_.lanes(); ++lane)
    for (int index = 0; index < layout_.slots(lane); ++index) {
      const Entry& entry = entries_[layout_.ordinal(lane, index)];
      if (entry.state != State::kUnderWay || entry.sequence >= next) continue;
      const SlotName name{lane, index, entry.sequence};
      if (!std::ranges::binary_search(held, name.sequence, {}, &SlotName::sequence))
        count += released(name);
    }
  return count;
}

ReceiverSlots::ReceiverSlots(const LaneLayout& layout)
    : layout_(layout), held_(layout.total_slots()) {}

void ReceiverSlots::hold(const SlotName& slot) {
  held_[layout_.ordinal(slot.lane, slot.index)] = {true, slot.sequence};
}

uint64_t ReceiverSlots::release(int lane, int index) {
  KERF_CHECK(layout_.contains(lane, index) && holds(lane, index),
             "slot {} of lane {} was released, but holds no message", index, lane);
  Entry& entry = held_[layout_.ordinal(lane, index)];
  entry.taken = false;
  return entry.sequence;
}

std::vector<SlotName> ReceiverSlots::all() const {
  std::vector<SlotName> result;
  for (int lane = 0; lane < layout_.lanes(); ++lane)
    for (int index = 0; index < layout_.slots(lane); ++index)
      if (holds(lane, index))
        result.push_back({lane, index, held_[layout_.ordinal(lane, index)].sequence});
  std::ranges::sort(result, {}, &SlotName::sequence);
  return result;
}

}  // namespace kerf::runtime
