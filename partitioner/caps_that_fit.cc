#include "partitioner/caps_that_fit.h"

#include <algorithm>
#include <utility>

#include "partitioner/most_rows.h"
#include "partitioner/smallest_change.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {
namespace {

constexpr int64_t kMoreByParts[] = {64, 16, 8, 4, 2, 1};
constexpr int kMostLowerings = 16;

class CapsThatFit {
 public:
  CapsThatFit(const PlanRequest& asked, const PlanWithin& plan_within)
      : asked_(asked), plan_within_(plan_within) {}

  // Those that the plan takes, or a part more, as others may be found under caps; then, for as long
  // as what is made under them takes less, as much as that.
  bool find(const Plan& free) {
    raise(free);
    for (const int64_t part : kMoreByParts)
      if (!plan_) raise(free, part);
    if (!plan_) return false;
    for (int times = 0; times < kMostLowerings; ++times)
      if (!raise(*plan_)) break;
    return true;
  }

  void tell(Infeasible& lacks) const {
    if (auto own = shortage_of(*plan_, asked_)) lacks = *std::move(own);
    std::optional<int64_t> everybody;
    if (caps_.memory != asked_.memory) everybody = caps_.memory;
    const std::vector<DeviceMemory> devices = raised_devices();
    lacks.micro_batches = 0;
    lacks.smallest_change = memory_text(everybody, devices);
    lacks.is_enough = devices.empty();
    if (lacks.of_device < 0 && everybody) lacks.over = *everybody - lacks.cap;
    if (lacks.of_device >= 0 && !devices.empty()) tell_of(devices.front(), lacks);
  }

 private:
  // Takes the caps with what the plan takes above them, where they are others and a plan is made.
  bool raise(const Plan& plan, std::optional<int64_t> part = std::nullopt) {
    PlanRequest caps = asked_;
    for (const WorkerPrediction& worker : plan.workers) {
      const int64_t bytes = worker.peak_bytes + (part ? worker.peak_bytes / *part : 0);
      if (caps.memory) caps.memory = std::max(*caps.memory, bytes);
      if (auto* const device = device_of(caps, worker.worker)) *device = std::max(*device, bytes);
    }
    if (plan_ && has_caps_of(caps)) return false;
    auto made = plan_within_(caps);
    if (!made) return false;
    plan_ = std::move(made);
    caps_ = std::move(caps);
    return true;
  }

  void tell_of(const DeviceMemory& device, Infeasible& lacks) const {
    lacks.of_device = device.worker;
    lacks.cap = asked_.speed.capacities.memory_of(device.worker).value();
    lacks.over = device.bytes - lacks.cap;
    lacks.stage = last_stage_of(*plan_, device.worker);
  }

  // Nothing where it has no cap of its own.
  static int64_t* device_of(PlanRequest& request, int worker) {
    auto& devices = request.speed.capacities.workers;
    if (devices.empty() || !devices[static_cast<size_t>(worker)].memory) return nullptr;
    return &*devices[static_cast<size_t>(worker)].memory;
  }

  bool has_caps_of(const PlanRequest& other) const {
    if (other.memory != caps_.memory) return false;
    const auto& own = caps_.speed.capacities.workers;
    return std::ranges::equal(own, other.speed.capacities.workers, {}, &Capacity::memory,
                              &Capacity::memory);
  }

  // The most raised first.
  std::vector<DeviceMemory> raised_devices() const {
    std::vector<DeviceMemory> raised;
    const auto& devices = caps_.speed.capacities.workers;
    const auto& had = asked_.speed.capacities.workers;
    for (size_t worker = 0; worker < devices.size(); ++worker)
      if (devices[worker].memory != had[worker].memory)
        raised.push_back({static_cast<int>(worker), devices[worker].memory.value()});
    std::ranges::stable_sort(raised, std::greater<>(), [&](const DeviceMemory& device) {
      return device.bytes - had[static_cast<size_t>(device.worker)].memory.value();
    });
    return raised;
  }

  const PlanRequest& asked_;
  const PlanWithin& plan_within_;
  PlanRequest caps_;
  std::optional<Plan> plan_;  // within these
};

}  // namespace

void tell_caps_that_fit(const PlanRequest& asked, const Plan& free, const PlanWithin& plan_within,
                        Infeasible& lacks) {
  CapsThatFit caps(asked, plan_within);
  if (caps.find(free)) return caps.tell(lacks);
  lacks.micro_batches = 0;
  lacks.is_enough = false;
  lacks.smallest_change = "no cap";
}

// Ever smaller ones until some do, then fewer by halves.
int micro_batches_that_fit(const Model& model, PlanRequest request, const InFlight& in_flight,
                           const PlanWithin& plan_within) {
  int64_t too_large = request.largest_micro_batch();
  const int64_t fewest = std::max(fewest_rows(model, request, in_flight),
                                  (request.batch + kMostMicroBatches - 1) / kMostMicroBatches);
  request.given_sizes.clear();
  const auto fit = [&](int64_t rows) {
    request.micro_batches = static_cast<int>((request.batch + rows - 1) / rows);
    return plan_within(request).has_value();
  };
  int64_t rows = too_large;
  do {
    if (rows <= fewest) return 0;
    too_large = std::exchange(rows, std::max(fewest, rows / 2));
  } while (!fit(rows));
  while (too_large - rows > 1) {
    const int64_t middle = rows + (too_large - rows) / 2;
    (fit(middle) ? rows : too_large) = middle;
  }
  return static_cast<int>((request.batch + rows - 1) / rows);
}

}  // namespace kerf::partitioner
