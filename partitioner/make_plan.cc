// From a request to a plan: cut, connect, bind, predict; and what to change when nothing fits.
#include <algorithm>
#include <map>
#include <utility>

#include "partitioner/checked_bound.h"
#include "partitioner/connected_plan.h"
#include "partitioner/cut.h"
#include "partitioner/least_memory.h"
#include "partitioner/rewrite.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

constexpr int64_t kFinestStep = 512;  // of a peak, where operators are many

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

const CutRow& row_of(Cut cut) {
  const auto row = static_cast<size_t>(cut);
  KERF_CHECK(row < cuts().size(), "cut {} is no row of the table", row);
  return cuts()[row];
}

// A stage of the worker that is most over the cap, if any is.
std::optional<Infeasible> check_memory(const Plan& plan, const PlanRequest& request) {
  const auto over = [&](const WorkerPrediction& worker) {
    const auto cap = request.cap_of(worker.worker);
    return cap ? std::max<int64_t>(0, worker.peak_bytes - *cap) : 0;
  };
  const auto most = std::max_element(
      plan.workers.begin(), plan.workers.end(),
      [&](const WorkerPrediction& a, const WorkerPrediction& b) { return over(a) < over(b); });
  if (most == plan.workers.end() || over(*most) == 0) return std::nullopt;
  Infeasible result;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const int part : plan.stages[s].parts)
      if (plan.binding[static_cast<size_t>(part)] == most->worker)
        result.stage = static_cast<int>(s);
  result.cap = request.cap_of(most->worker).value();
  result.over = over(*most);
  if (result.cap != request.memory) result.of_device = most->worker;
  result.smallest_change = result.of_device < 0 ? format("--memory {}", most->peak_bytes)
                                                : format("a device of worker {} with {} bytes",
                                                         most->worker, most->peak_bytes);
  return result;
}

// Where a stage leaves first what leaves it, all of its outputs' gradients live at once; where the
// cap leaves no room for that, it makes the gradients of weights in between.
void interleave(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                Plan& plan) {
  for (Stage& stage : plan.stages)
    for (const int part : stage.parts) {
      const auto worker = static_cast<size_t>(plan.binding[static_cast<size_t>(part)]);
      const auto cap = request.cap_of(static_cast<int>(worker));
      stage.interleaved = stage.interleaved || (cap && plan.workers[worker].peak_bytes > *cap);
    }
  plan.workers = predict(model, plan, request, in_flight);
}

}  // namespace

Plan predicted_plan(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                    const Bound& bound, Plan plan) {
  KERF_CHECK(request.trains == in_flight.trains(), "schedule {} {} gradients", request.schedule,
             in_flight.trains() ? "has" : "has no");
  plan.workers = predict(model, plan, request, in_flight);
  plan.bottleneck = bottleneck_of(model, plan, request);
  Bound checked = checked_bound(bound, plan.bottleneck, model.name());
  plan.bound = checked.value;
  plan.witness.text = std::move(checked.witness);
  if (check_memory(plan, request)) interleave(model, request, in_flight, plan);
  return plan;
}

Plan assigned_plan(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                   const Assignment& assignment) {
  return predicted_plan(model, request, in_flight, {assignment.bound, assignment.witness},
                        connected_plan(model, request, assignment));
}

namespace {

// Stage -> bytes of the fullest of its workers.
std::vector<int64_t> peaks_of(const Plan& plan) {
  std::vector<int64_t> peaks;
  for (const Stage& stage : plan.stages) {
    int64_t& most = peaks.emplace_back(0);
    for (const int part : stage.parts) {
      const auto worker = static_cast<size_t>(plan.binding[static_cast<size_t>(part)]);
      most = std::max(most, plan.workers[worker].peak_bytes);
    }
  }
  return peaks;
}

// What layer divisions of a request take, whatever its caps: each is looked at once, however often
// searches under one cap after another come back to it.
class KnownPeaks {
 public:
  KnownPeaks(const Model& model, const PlanRequest& request, const InFlight& in_flight)
      : model_(model), request_(request), in_flight_(in_flight) {}

  // Under these caps, as predicted_plan() has it.
  std::vector<int64_t> of(Assignment assignment, const PlanRequest& caps) {
    std::vector<int64_t> peaks = known(assignment);
    if (!interleave_above(caps, peaks, assignment)) return peaks;
    return known(assignment);
  }

 private:
  using Division = std::pair<std::vector<std::vector<NodeId>>, std::vector<int>>;

  static bool interleave_above(const PlanRequest& caps, const std::vector<int64_t>& peaks,
                               Assignment& assignment) {
    bool any = false;
    for (size_t s = 0; s < peaks.size(); ++s) {
      const auto cap = caps.cap_of(worker_of(caps, assignment, s));
      if (!cap || peaks[s] <= *cap) continue;
      assignment.stages[s].interleaved = any = true;
    }
    return any;
  }
  static int worker_of(const PlanRequest& request, const Assignment& assignment, size_t stage) {
    const int part = assignment.stages[stage].parts.front();
    return assignment.binding.empty() ? request.worker_of(part)
                                      : assignment.binding[static_cast<size_t>(part)];
  }

  const std::vector<int64_t>& known(const Assignment& assignment) {
    Division division;
    for (const Stage& stage : assignment.stages) {
      division.first.push_back(stage.nodes);
      division.second.push_back(stage.interleaved);
    }
    division.second.insert(division.second.end(), assignment.binding.begin(),
                           assignment.binding.end());
    const auto [found, fresh] = peaks_.try_emplace(std::move(division));
    if (fresh) {
      Plan plan = connected_plan(model_, request_, assignment);
      plan.workers = predict(model_, plan, request_, in_flight_);
      found->second = peaks_of(plan);
    }
    return found->second;
  }

  const Model& model_;
  const PlanRequest request_;
  const InFlight& in_flight_;
  std::map<Division, std::vector<int64_t>> peaks_;
};

// Empty if the cut itself finds nothing within the cap; a plan that is found may still be above it.
std::optional<Plan> try_plan(const Model& model, const PlanRequest& request,
                             const InFlight& in_flight, KnownPeaks& known) {
  const auto peaks = [&](const Assignment& assignment) {
    if (request.cut == Cut::kLayer) return known.of(assignment, request);
    return peaks_of(assigned_plan(model, request, in_flight, assignment));
  };
  const auto assignment = row_of(request.cut).make({model, request, in_flight, peaks});
  if (!assignment) return std::nullopt;
  return assigned_plan(model, request, in_flight, *assignment);
}
std::optional<Plan> try_plan(const Model& model, const PlanRequest& request,
                             const InFlight& in_flight) {
  KnownPeaks known(model, request, in_flight);
  return try_plan(model, request, in_flight, known);
}

bool is_within(const std::optional<Plan>& plan, const PlanRequest& request) {
  return plan && !check_memory(*plan, request);
}

}  // namespace

bool fits(const Model& model, const PlanRequest& request, const InFlight& in_flight) {
  if (exceeds_all_caps(least_memory(model, request), request)) return false;
  try {
    return is_within(try_plan(model, request, in_flight), request);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return false;  // no plan at all, so none that fits
  }
}

namespace {

// The fewest micro-batches that fit; 0 if none do. Only numbers that make the largest micro-batch
// smaller can help. Up to four times the request's each of them is tried; beyond that it is halved
// between what does not fit and samples one by one, or one for each worker to divide them over.
int more_micro_batches(const Model& model, PlanRequest request, const InFlight& in_flight) {
  const int64_t most = std::min(request.batch, int64_t{kMostMicroBatches});
  const int64_t nearby = std::min(most, int64_t{4} * request.micro_batches);
  std::map<int64_t, bool> known{{request.largest_micro_batch(), false}};
  const auto do_fit = [&](int64_t m) {
    request.micro_batches = static_cast<int>(m);
    const auto [size, fresh] = known.try_emplace(request.largest_micro_batch());
    if (!fresh) return size->second;
    // The fewest of this size, each of which has a loss to keep.
    request.micro_batches = static_cast<int>((request.batch + size->first - 1) / size->first);
    return size->second = fits(model, request, in_flight);
  };
  for (int64_t m = request.micro_batches + 1; m <= nearby; ++m)
    if (do_fit(m)) return static_cast<int>(m);
  int64_t none = nearby;
  int64_t some = most;
  if (!do_fit(some)) some = std::min(most, request.batch / request.workers);
  if (some <= none || !do_fit(some)) return 0;
  while (some - none > 1) {
    const int64_t middle = none + (some - none) / 2;
    (do_fit(middle) ? some : none) = middle;
  }
  return static_cast<int>(some);
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

int64_t peak_of(const Plan& plan) {
  int64_t most = 0;
  for (const WorkerPrediction& worker : plan.workers) most = std::max(most, worker.peak_bytes);
  return most;
}

// The plan of the least peak that the cut finds: from the best one without a cap down, by steps
// that get smaller, until a cap of one byte less finds nothing; of many operators, one of a
// thousandth less. Of a cut that heeds no cap, the one plan there is, all of it interleaved.
Plan least_plan(const Model& model, PlanRequest request, const InFlight& in_flight,
                KnownPeaks& known) {
  const std::optional<int64_t> cap = std::exchange(request.memory, std::nullopt);
  const Capacities devices = request.speed.capacities;
  for (Capacity& device : request.speed.capacities.workers) device.memory.reset();
  const auto as_asked = [&](Plan made) {
    made.request->memory = cap;
    made.request->capacities = devices;
    return made;
  };
  if (!row_of(request.cut).heeds_memory) request.memory = 1;
  Plan plan = try_plan(model, request, in_flight, known).value();
  if (!row_of(request.cut).heeds_memory) return as_asked(std::move(plan));
  const int64_t least = least_memory(model, request);
  const int64_t finest = model.nodes() > kFewNodes ? peak_of(plan) / kFinestStep : 0;
  for (int64_t step = peak_of(plan) / 4 + 1; step > finest;) {
    request.memory = std::max<int64_t>(1, peak_of(plan) - step);
    std::optional<Plan> smaller;
    if (!exceeds_all_caps(least, request)) smaller = try_plan(model, request, in_flight, known);
    if (is_within(smaller, request))
      plan = *std::move(smaller);
    else
      step /= 2;
  }
  return as_asked(std::move(plan));
}

}  // namespace

// Smaller micro-batches cost nothing but time, more workers are there to be had, more memory
// perhaps not: the first of these that is enough.
void find_smallest_change(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                          Infeasible& infeasible) {
  if (const int m = more_micro_batches(model, request, in_flight); m > 0)
    infeasible.smallest_change = format("--micro-batches {}", m);
  else if (const int w = more_workers(model, request, in_flight); w > 0)
    infeasible.smallest_change = format("--workers {}", w);
}

namespace {

// What has no batch cannot be cut into micro-batches.
void refuse_wholes(const Model& model) {
  if (!model.has_whole_inputs()) return;
  for (ValueId id = 0; id < model.values(); ++id)
    if (const Value& value = model.value(id); value.role == Role::kInput)
      throw Error(ErrorCode::kUsage,
                  format("its input {} {} is a whole without a batch: a plan wants a row for each "
                         "sample along the first axis of every input",
                         value.name, ops::to_string(value.spec.shape)),
                  model.name());
}

}  // namespace

std::string Infeasible::text() const {
  const std::string whose = of_device < 0
                                ? "the memory cap of {} bytes per worker"
                                : format("the {{}} bytes that worker {}'s device has", of_device);
  std::string text = format(
      "no plan fits: stage {} needs {} ({} bytes) more than {}; the smallest change that "
      "fits is {}",
      stage, human_bytes(static_cast<double>(over)), over, format(fmt::runtime(whose), cap),
      smallest_change);
  if (of_device < 0 && !smallest_change.starts_with("--memory"))
    text += format(", or --memory {}", cap + over);
  return text;
}

std::optional<int64_t> PlanRequest::cap_of(int worker) const {
  const std::optional<int64_t> own = speed.capacities.memory_of(worker);
  return own && memory ? std::min(*own, *memory) : own ? own : memory;
}

bool PlanRequest::is_capped() const {
  const auto& devices = speed.capacities.workers;
  return memory || std::any_of(devices.begin(), devices.end(),
                               [](const Capacity& device) { return device.memory.has_value(); });
}

int PlanRequest::workers_bound() const {
  return placement.empty() ? workers : 1 + *std::max_element(placement.begin(), placement.end());
}

Model model_for(const Model& model, const PlanRequest& request) {
  check_request(request);
  const CutRow& row = row_of(request.cut);
  return row.rewrites == nullptr ? model : rewritten(model, row.rewrites(model, request));
}

namespace {

// The most samples of a micro-batch that fit under a cap. Peaks grow with samples almost in
// proportion, so that the next number to try is where the line through two known peaks meets the
// cap; where that gains little, it is halfway.
class LargestMicroBatch {
 public:
  LargestMicroBatch(const Model& model, PlanRequest request, const InFlight& in_flight)
      : model_(model), request_(std::move(request)), in_flight_(in_flight) {}

  int64_t find() {
    const int64_t fewest = fewest_of_any_plan();
    fits_ = try_with(fewest);
    if (!fits_.within) return fewest;
    above_.samples = end_ = kMostRows / request_.micro_batches + 1;
    bool halve = false;
    while (above_.samples - fits_.samples > 1) {
      const int64_t gap = above_.samples - fits_.samples;
      const Tried next = try_with(std::clamp(halve ? fits_.samples + gap / 2 : on_the_line(),
                                             fits_.samples + 1, above_.samples - 1));
      if (next.within)
        before_ = std::exchange(fits_, next);
      else
        above_ = next;
      halve = !halve && above_.samples < end_ && above_.samples - fits_.samples > gap / 2;
    }
    return fits_.samples;
  }

 private:
  struct Tried {
    int64_t samples = 0;
    bool within = false;
    std::optional<int64_t> peak = std::nullopt;  // of a plan, within the cap or not
  };

  Tried try_with(int64_t samples) {
    request_.batch = samples * request_.micro_batches;
    check_request(request_);
    try {
      const auto plan = try_plan(model_for(model_, request_), request_, in_flight_);
      if (!plan) return {samples};
      return {samples, is_within(plan, request_), peak_of(*plan)};
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      return {samples};  // no plan at all
    }
  }

  // A cut by samples has no plan of fewer than it divides them over.
  int64_t fewest_of_any_plan() {
    const auto cap = std::exchange(request_.memory, std::nullopt);
    const Capacities devices = request_.speed.capacities;
    for (Capacity& device : request_.speed.capacities.workers) device.memory.reset();
    int64_t none = 0;
    int64_t some = 1;
    while (some < request_.workers && !try_with(some).within)
      none = std::exchange(some, std::min<int64_t>(2 * some, request_.workers));
    while (some - none > 1) {
      const int64_t middle = none + (some - none) / 2;
      (try_with(middle).within ? some : none) = middle;
    }
    request_.memory = cap;
    request_.speed.capacities = devices;
    return some;
  }

  int64_t on_the_line() const {
    const Tried& other = above_.peak ? above_ : before_;
    const int64_t most = 8 * fits_.samples;  // of what is tried at once beyond what is known
    if (!other.peak || !request_.memory)     // the caps are the devices' own
      return above_.samples < end_ ? fits_.samples + (above_.samples - fits_.samples) / 2
                                   : 2 * fits_.samples;
    const double slope = static_cast<double>(*other.peak - *fits_.peak) /
                         static_cast<double>(other.samples - fits_.samples);
    const double more = static_cast<double>(*request_.memory - *fits_.peak) / slope;
    return slope > 0 && more < static_cast<double>(most)
               ? fits_.samples + static_cast<int64_t>(more)
               : most;
  }

  const Model& model_;
  PlanRequest request_;
  const InFlight& in_flight_;
  int64_t end_ = 0;
  Tried fits_;    // the most that is known to fit
  Tried before_;  // the most before that
  Tried above_;   // the fewest that are known not to, or more than there may be
};

}  // namespace

int64_t largest_batch(const Model& model, PlanRequest request, const InFlight& in_flight) {
  const int micro_batches = request.micro_batches;
  return LargestMicroBatch(model, std::move(request), in_flight).find() * micro_batches;
}

namespace {

// The plan, or where none is within the caps, one of the least peak.
Plan plan_or_least(const Model& model, const PlanRequest& request, const InFlight& in_flight) {
  KnownPeaks known(model, request, in_flight);
  if (!exceeds_all_caps(least_memory(model, request), request))
    if (auto plan = try_plan(model, request, in_flight, known); is_within(plan, request))
      return *std::move(plan);
  return least_plan(model, request, in_flight, known);
}

void check_model(const Model& model, const PlanRequest& request) {
  check_request(request);
  refuse_wholes(model);
  model.check();
}

}  // namespace

std::optional<Plan> plan_within(const Model& model, const PlanRequest& request,
                                const InFlight& in_flight) {
  check_model(model, request);
  if (exceeds_all_caps(least_memory(model, request), request)) return std::nullopt;
  Plan plan = plan_or_least(model, request, in_flight);
  if (check_memory(plan, request)) return std::nullopt;
  return plan;
}

std::variant<Plan, Infeasible> plan_or_shortage(const Model& model, const PlanRequest& request,
                                                const InFlight& in_flight) {
  check_model(model, request);
  Plan plan = plan_or_least(model, request, in_flight);
  if (auto infeasible = check_memory(plan, request)) return *std::move(infeasible);
  return plan;
}

std::variant<Plan, Infeasible> make_plan(const Model& model, const PlanRequest& request,
                                         const InFlight& in_flight) {
  auto answer = plan_or_shortage(model, request, in_flight);
  if (auto* const infeasible = std::get_if<Infeasible>(&answer))
    find_smallest_change(model, request, in_flight, *infeasible);
  return answer;
}

}  // namespace kerf::partitioner
