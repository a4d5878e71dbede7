// The books of a channel's slots, shared by every transport: where each slot lies in the channel's
// memory, which slots the sender may take, and which the receiver holds.
//
// Plain values without locks; each belongs to whoever guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/channel.h"

namespace kerf::runtime {

// Offsets of slots in one block of memory: slots aligned to 64, the block a whole number of pages.
class LaneLayout {
 public:
  LaneLayout() = default;
  // Throws Error{kInternal} for a negative count or a sum beyond the address space.
  explicit LaneLayout(const std::vector<Lane>& lanes);

  bool contains(int64_t lane, int64_t index) const;
  // As contains(), and `bytes` fit. For numbers that come from outside.
  bool fits(int64_t lane, int64_t index, uint64_t bytes) const;
  size_t offset(int lane, int index) const;
  // The slot's place among all slots of the channel, from 0.
  size_t ordinal(int lane, int index) const { return lanes_[lane].first + index; }
  uint64_t slot_bytes(int lane) const { return lanes_[lane].slot_bytes; }
  int lanes() const { return static_cast<int>(lanes_.size()); }
  int slots(int lane) const { return lanes_[lane].slots; }
  size_t total_slots() const { return total_slots_; }
  size_t total_bytes() const { return total_bytes_; }

 private:
  struct Row {
    uint64_t slot_bytes = 0;
    size_t stride = 0;
    size_t begin = 0;
    size_t first = 0;
    int32_t slots = 0;
  };
  std::vector<Row> lanes_;
  size_t total_slots_ = 0;
  size_t total_bytes_ = 0;
};

struct SlotName {
  int32_t lane = 0;
  int32_t index = 0;
  uint64_t sequence = 0;  // of the message in it
};

// The sender's side: a slot is free, taken (acquired) or under way (committed, not yet released).
// One that is retained is free only when it is retired as well, in whichever order.
class SenderSlots {
 public:
  explicit SenderSlots(const LaneLayout& layout);
  // The slot of the lane that was freed last, since its memory is warm. Empty when none is free.
  std::optional<int> take(int lane);
  void committed(const SlotName& slot);  // a bug unless taken
  void abandoned(int lane, int index);   // a bug unless taken
  void retained(int lane, int index);    // a bug unless taken
  void retired(int lane, int index);     // a bug unless retained and committed
  bool released(const SlotName& slot);   // false unless under way with that sequence number
  bool has_free(int lane) const { return !free_[lane].empty(); }
  size_t under_way() const { return under_way_; }
  // Frees every slot under way whose message is below `next` and not in `held` (sorted by
  // sequence).
  size_t released_all_but(uint64_t next, const std::vector<SlotName>& held);

 private:
  enum class State : uint8_t { kFree, kTaken, kUnderWay, kReleased };
  struct Entry {
    State state = State::kFree;
    uint64_t sequence = 0;
    bool retained = false;
  };
  Entry& entry(int lane, int index);
  void free(int lane, int index);

  LaneLayout layout_;
  std::vector<Entry> entries_;
  std::vector<std::vector<int>> free_;
  size_t under_way_ = 0;
};

// The receiver's side: the slots whose messages arrived and were not released yet.
class ReceiverSlots {
 public:
  explicit ReceiverSlots(const LaneLayout& layout);
  bool holds(int lane, int index) const { return held_[layout_.ordinal(lane, index)].taken; }
  void hold(const SlotName& slot);
  // The sequence number of the message. Throws Error{kInternal} if the slot is not held.
  uint64_t release(int lane, int index);
  std::vector<SlotName> all() const;  // sorted by sequence

 private:
  struct Entry {
    bool taken = false;
    uint64_t sequence = 0;
  };
  LaneLayout layout_;
  std::vector<Entry> held_;
};

}  // namespace kerf::runtime
