#include "partitioner/setting.h"

#include <map>

#include "partitioner/blocks.h"

namespace kerf::partitioner {

namespace {

constexpr int64_t kMostSlotBytes = int64_t{1} << 50;  // of a channel: beyond any memory

}  // namespace

std::vector<int64_t> slot_bytes(const Model& model, const Plan& plan, const std::vector<int>& held,
                                const Setting& setting, int64_t samples) {
  return slot_bytes(model, plan, held, setting.slots, samples,
                    [&](int, int) { return setting.slot_place; });
}

// A slot is whole cache lines, a channel's slots are whole pages, or blocks that a GPU exports. A
// worker keeps the slots of what it sends to itself beside its other memory.
std::vector<int64_t> slot_bytes(const Model& model, const Plan& plan, const std::vector<int>& held,
                                int slots_more, int64_t samples,
                                const std::function<SlotPlace(int, int)>& place_of) {
  std::map<std::pair<int, int>, int64_t> channels;  // sender, receiver -> bytes
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    const Route& route = plan.routes[r];
    const auto bytes = static_cast<int64_t>(message_bytes(model, route, samples));
    int64_t& sum = channels[{plan.binding[static_cast<size_t>(route.from)],
                             plan.binding[static_cast<size_t>(route.to)]}];
    int64_t slots = 0;
    if (__builtin_mul_overflow(whole_blocks(bytes), int64_t{held[r]} + slots_more, &slots) ||
        slots > kMostSlotBytes - sum)
      throw Error(
          ErrorCode::kUsage,
          format("the slots of {}, {} of {} bytes, take more than {} bytes; use a smaller --batch, "
                 "fewer --slots, or more --micro-batches where a schedule keeps few in flight",
                 name_of(model, route), int64_t{held[r]} + slots_more, bytes, kMostSlotBytes));
    sum += slots;
  }
  std::vector<int64_t> workers(static_cast<size_t>(plan.workers_bound()));
  for (const auto& [ends, bytes] : channels) {
    if (ends.first == ends.second) {
      workers[static_cast<size_t>(ends.first)] += bytes;
      continue;
    }
    const SlotPlace place = place_of(ends.first, ends.second);
    const int64_t taken =
        place == SlotPlace::kExported ? whole_exported_blocks(bytes) : whole_pages(bytes);
    workers[static_cast<size_t>(ends.first)] += taken;
    if (place == SlotPlace::kBothEnds) workers[static_cast<size_t>(ends.second)] += taken;
  }
  return workers;
}

}  // namespace kerf::partitioner
