#include "partitioner/smallest_change.h"

#include <algorithm>
#include <map>
#include <utility>

#include "partitioner/least_memory.h"
#include "partitioner/most_rows.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {
namespace {

// The fewest even micro-batches that are found to fit; 0 if none do. Only numbers that make the
// largest one smaller can help.
int more_micro_batches(const Model& model, PlanRequest request, const InFlight& in_flight,
                       const Infeasible& lacks) {
  const int64_t too_large = request.largest_micro_batch();
  const int64_t fewest = std::max(fewest_rows(model, request, in_flight),
                                  (request.batch + kMostMicroBatches - 1) / kMostMicroBatches);
  if (fewest >= too_large) return 0;
  request.given_sizes.clear();
  // The fewest of this size, each of which has a loss to keep; they may all be smaller.
  const auto micro_batches_of = [&](int64_t rows) {
    return static_cast<int>((request.batch + rows - 1) / rows);
  };
  const auto try_with = [&](int64_t rows) {
    request.micro_batches = micro_batches_of(rows);
    TriedRows tried = try_rows(model, request, in_flight);
    if (tried.within) tried.rows = rows;
    return tried;
  };
  // Nothing takes nothing.
  const TriedRows none{fewest - 1, true, 0};
  TriedRows above{too_large};
  if (lacks.of_device < 0) above.peak = lacks.cap + lacks.over;
  const TriedRows most = MostRows(try_with, request.memory).between(none, above);
  return most.rows < fewest ? 0 : micro_batches_of(most.rows);
}

// The fewest workers, up to twice the request's, that fit; 0 if none do.
int more_workers(const Model& model, PlanRequest request, const InFlight& in_flight) {
  // Its workers are those of the shares file, or of the schedule's.
  if (request.cut == Cut::kFree || !request.placement.empty()) return 0;
  if (!request.speed.capacities.empty()) return 0;  // of these workers
  const int most = std::min(2 * request.workers, kMostWorkers);
  while (++request.workers <= most)
    if (fits(model, request, in_flight)) return request.workers;
  return 0;
}

// What memory would do: of everybody, and of the devices that are short of their own, the most
// first. Each of these has what it takes where the ones before have theirs, and the ones behind as
// much as they like. What is told is followed, until it fits.
class MemoryThatFits {
 public:
  MemoryThatFits(const Model& model, PlanRequest request, const InFlight& in_flight)
      : model_(model),
        request_(std::move(request)),
        in_flight_(in_flight),
        asked_memory_(request_.memory) {}

  // Nothing where more memory alone does not help.
  void tell(Infeasible& infeasible) {
    if (!raise_until_it_fits(infeasible)) return;
    std::vector<DeviceMemory> devices;
    for (const int worker : devices_) {
      const auto needed = least_memory_of(worker);
      if (!needed) return;
      if (*needed > had_.at(worker)) devices.push_back({worker, *needed});
    }
    if (!for_everybody_ && devices.empty()) return;
    infeasible.smallest_change =
        memory_text(for_everybody_ ? request_.memory : std::nullopt, devices);
    if (infeasible.of_device >= 0 && !devices.empty()) return tell_of(devices.front(), infeasible);
    infeasible.of_device = -1;
    infeasible.cap = asked_memory_.value();
    infeasible.over = *request_.memory - infeasible.cap;
  }

  // With the memory that was told, where any was.
  const PlanRequest& request() const { return request_; }

 private:
  static constexpr int kMostRaises = 16;

  std::optional<int64_t>& memory_of(int worker) {
    return request_.speed.capacities.workers[static_cast<size_t>(worker)].memory;
  }

  bool raise_until_it_fits(Infeasible lacks) {
    for (int times = 0; times < kMostRaises; ++times) {
      if (lacks.of_device < 0) {
        request_.memory = lacks.cap + lacks.over;
        for_everybody_ = true;
      } else {
        devices_.push_back(lacks.of_device);
        had_[lacks.of_device] = std::exchange(memory_of(lacks.of_device), std::nullopt).value();
      }
      if (fits(model_, request_, in_flight_)) return true;
      auto answer = plan_or_shortage(model_, request_, in_flight_);
      if (std::holds_alternative<Plan>(answer)) return true;
      lacks = std::get<Infeasible>(std::move(answer));
    }
    return false;
  }

  void tell_of(const DeviceMemory& device, Infeasible& infeasible) const {
    infeasible.of_device = device.worker;
    infeasible.cap = had_.at(device.worker);
    infeasible.over = device.bytes - infeasible.cap;
    infeasible.stage = last_stage_of(try_plan(model_, request_, in_flight_).value(), device.worker);
  }

  // What it has, where that is enough, though it was not while the devices before lacked theirs.
  // Else to the byte, or where operators are many, to a five hundredth.
  std::optional<int64_t> least_memory_of(int worker) {
    if (fits_with(worker, had_.at(worker))) return had_.at(worker);
    memory_of(worker).reset();
    const auto plan = try_plan(model_, request_, in_flight_);
    if (!is_within(plan, request_)) return std::nullopt;
    int64_t enough = 0;
    for (const WorkerPrediction& each : plan->workers)
      if (each.worker == worker) enough = each.peak_bytes;
    int64_t too_little = had_.at(worker);
    const int64_t finest = finest_step(model_, enough);
    while (enough - too_little > 1 + finest) {
      const int64_t middle = too_little + (enough - too_little) / 2;
      (fits_with(worker, middle) ? enough : too_little) = middle;
    }
    if (enough <= too_little || !fits_with(worker, enough)) return std::nullopt;
    return enough;
  }

  bool fits_with(int worker, int64_t memory) {
    memory_of(worker) = memory;
    return fits(model_, request_, in_flight_);
  }

  const Model& model_;
  PlanRequest request_;
  const InFlight& in_flight_;
  const std::optional<int64_t> asked_memory_;
  bool for_everybody_ = false;  // whether request_.memory was raised
  std::vector<int> devices_;    // that are short, and no cap of theirs stands in the request
  std::map<int, int64_t> had_;
};

}  // namespace

std::string memory_text(const std::optional<int64_t>& everybody,
                        const std::vector<DeviceMemory>& devices) {
  std::vector<std::string> changes;
  if (everybody) changes.push_back(format("--memory {}", *everybody));
  std::vector<std::string> needs;
  for (const DeviceMemory& device : devices)
    needs.push_back(format("of worker {} with {} bytes", device.worker, device.bytes));
  if (!needs.empty())
    changes.push_back(
        format("{} {}", needs.size() == 1 ? "a device" : "devices", fmt::join(needs, " and ")));
  return format("{}", fmt::join(changes, " and "));
}

PlanRequest tell_memory(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                        Infeasible& lacks) {
  lacks.tell_micro_batches(request, 0);
  MemoryThatFits memory(model, request, in_flight);
  memory.tell(lacks);
  return memory.request();
}

// Smaller micro-batches cost nothing but time, more workers are there to be had, more memory
// perhaps not: the first of these that is enough.
void find_smallest_change(const PlanRequest& asked, const InFlight& in_flight, Shortage& shortage) {
  auto& [lacks, model, way] = shortage;
  look_for_less(model, way, in_flight, lacks);
  if (asked.speed.capacities.has_caps() && lacks.of_device < 0) {
    PlanRequest more = asked;
    more.memory = lacks.cap + lacks.over;
    lacks.is_enough = fits(model, more, in_flight);
  }
  if (const int m = more_micro_batches(model.as_read(), asked, in_flight, lacks); m > 0)
    lacks.tell_micro_batches(asked, m);
  else if (const int w = more_workers(model, asked, in_flight); w > 0)
    lacks.smallest_change = format("--workers {}", w);
  else if (asked.speed.capacities.has_caps() || !asked.placement.empty())
    MemoryThatFits(model, way, in_flight).tell(lacks);
}

}  // namespace kerf::partitioner
