// The events of one side of a channel: for each slot, when that side's device is done with it.
//
// Owned by the channel, guarded by whoever guards that.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/lanes.h"

namespace kerf::runtime {

// How often whoever waits looks whether a device has come to an event: nothing wakes them.
inline constexpr std::chrono::microseconds kDevicePatience{100};

class SlotEvents {
 public:
  SlotEvents() = default;
  SlotEvents(const LaneLayout& layout, Device& device);

  // The slot's event, recorded in a stream of the device; null for a null stream.
  const Event* record(int lane, int index, Stream* stream);
  // What was returned for this slot last; null at first.
  const Event* last(int lane, int index) const { return last_[layout_.ordinal(lane, index)]; }
  bool all_happened() const;
  // Waits until everything has happened, or failed.
  void wait_all() const noexcept;

 private:
  LaneLayout layout_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<const Event*> last_;
};

}  // namespace kerf::runtime
