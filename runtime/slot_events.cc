#include "runtime/slot_events.h"

#include <algorithm>
#include <exception>

namespace kerf::runtime {

SlotEvents::SlotEvents(const LaneLayout& layout, Device& device)
    : layout_(layout), last_(layout.total_slots()) {
  for (size_t i = 0; i < layout.total_slots(); ++i) events_.push_back(device.make_event());
}

const Event* SlotEvents::record(int lane, int index, Stream* stream) {
  const size_t slot = layout_.ordinal(lane, index);
  if (stream != nullptr) stream->record(*events_[slot]);
  last_[slot] = stream == nullptr ? nullptr : events_[slot].get();
  return last_[slot];
}

bool SlotEvents::all_happened() const {
  return std::ranges::all_of(last_,
                             [](const Event* event) { return event == nullptr || event->ready(); });
}

void SlotEvents::wait_all() const noexcept {
  for (const Event* event : last_) try {
      if (event != nullptr) event->wait();
    } catch (const std::exception&) {
      // The failure is of the stream, and told to whoever has that.
    }
}

}  // namespace kerf::runtime
