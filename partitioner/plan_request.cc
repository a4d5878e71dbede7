// What a request for a plan says, and what its refusal tells.
#include <algorithm>

#include "partitioner/smallest_change.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

void check_request(const PlanRequest& request) {
  const auto fail = [](std::string reason) { throw Error(ErrorCode::kUsage, std::move(reason)); };
  if (request.workers < 1) fail(format("--workers {}: needs at least 1", request.workers));
  if (request.workers > kMostParts)
    fail(format("--workers {}: a plan has at most {} parts", request.workers, kMostParts));
  if (request.batch < 1 || request.batch > kMostRows)
    fail(format("--batch {}: must be within 1 and {}", request.batch, kMostRows));
  if (request.micro_batches < 1 || request.micro_batches > kMostMicroBatches)
    fail(format("--micro-batches {}: must be within 1 and {}", request.micro_batches,
                kMostMicroBatches));
  if (request.micro_batches > request.batch)
    fail(format("--micro-batches {}: a batch of {} rows has no more than {}", request.micro_batches,
                request.batch, request.batch));
  if (const std::string wrong =
          check_given_sizes(request.micro_batches, request.given_sizes, request.batch);
      !wrong.empty())
    fail(format("--micro-batches: {}", wrong));
  if (!request.placement.empty() &&
      request.placement.size() != static_cast<size_t>(request.workers))
    fail(format("a placement of {} parts, but there are {}", request.placement.size(),
                request.workers));
  check_slack(request.slack);
  if (request.slack > 0 && request.cut != Cut::kLayer)
    fail(
        "--slack is for --cut layer and auto: no other cut has plans to choose among by their "
        "bytes");
  if (request.memory && *request.memory < 1)
    fail(format("--memory {}: needs at least 1 byte", *request.memory));
  const auto& devices = request.speed.capacities.workers;
  if (!devices.empty() && std::ssize(devices) != request.workers_bound())
    fail(
        format("devices of {} workers, but there are {}", devices.size(), request.workers_bound()));
}

std::string Infeasible::text() const {
  const std::string whose = of_device < 0
                                ? "the memory cap of {} bytes per worker"
                                : format("the {{}} bytes that worker {}'s device has", of_device);
  const std::string bytes =
      over < 1024 ? plural(over, "byte")
                  : format("{} ({} bytes)", human_bytes(static_cast<double>(over)), over);
  std::string text =
      format("no plan fits: stage {} needs {} more than {}; the smallest change that fits is {}",
             stage, bytes, format(fmt::runtime(whose), cap), smallest_change);
  if (of_device < 0 && is_enough && !smallest_change.starts_with("--memory"))
    text += format(", or --memory {}", cap + over);
  return text;
}

// Sizes that were given said how many rows a step has; a number does not.
void Infeasible::tell_micro_batches(const PlanRequest& request, int so_many) {
  micro_batches = so_many;
  if (so_many > 0)
    smallest_change =
        format("{}--micro-batches {}",
               request.given_sizes.empty() ? "" : format("--batch {} ", request.batch), so_many);
  else if (of_device < 0)
    smallest_change = memory_text(cap + over, {});
  else
    smallest_change = memory_text({}, {{of_device, cap + over}});
}

std::optional<int64_t> PlanRequest::cap_of(int worker) const {
  const std::optional<int64_t> own = speed.capacities.memory_of(worker);
  return own && memory ? std::min(*own, *memory) : own ? own : memory;
}

PlanRequest PlanRequest::without_caps() const {
  PlanRequest request = *this;
  request.memory.reset();
  for (Capacity& device : request.speed.capacities.workers) device.memory.reset();
  return request;
}

bool PlanRequest::is_capped() const { return memory || speed.capacities.has_caps(); }

int PlanRequest::workers_bound() const {
  return placement.empty() ? workers : 1 + *std::max_element(placement.begin(), placement.end());
}

}  // namespace kerf::partitioner
