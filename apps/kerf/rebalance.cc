#include "apps/kerf/rebalance.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "apps/kerf/plan_schedule.h"
#include "apps/main/answer.h"
#include "apps/profile_file.h"
#include "apps/report/json_fields.h"
#include "apps/report/operator_times.h"
#include "apps/report/table.h"
#include "apps/report/worker_speeds.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/time.h"
#include "schedmp/simulate.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr double kAnother = 1.25;      // times, that slowness is worth another look
constexpr double kSpeeds = 1e6;        // that a file of devices may have, and their inverse
constexpr size_t kWeightsTold = 3;     // by name
constexpr size_t kMostText = 1 << 24;  // bytes

double seconds_between(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

size_t slowest(const std::vector<double>& slowness) {
  return static_cast<size_t>(std::ranges::max_element(slowness) - slowness.begin());
}

partitioner::Capacities capacities_of(const Planned& planned) {
  partitioner::Capacities capacities;
  if (planned.plan.request) capacities = planned.plan.request->capacities;
  capacities.workers.resize(static_cast<size_t>(planned.plan.workers_bound()));
  return capacities;
}

// The fastest is as fast as the fastest was: that all are slower alike changes nothing.
partitioner::Capacities slowed(const partitioner::Capacities& before,
                               const std::vector<double>& slowness) {
  const auto fastest = [](const partitioner::Capacities& of) {
    return std::ranges::max_element(of.workers, {}, &partitioner::Capacity::speed)->speed;
  };
  partitioner::Capacities now = before;
  for (size_t worker = 0; worker < slowness.size(); ++worker)
    now.workers[worker].speed /= slowness[worker];
  const double times = fastest(before) / fastest(now);
  for (partitioner::Capacity& each : now.workers)
    each.speed = std::clamp(each.speed * times, 1 / kSpeeds, kSpeeds);
  return now;
}

std::vector<double> speeds_of(const partitioner::Capacities& capacities) {
  std::vector<double> speeds;
  for (const partitioner::Capacity& each : capacities.workers) speeds.push_back(each.speed);
  return speeds;
}

// How many times as long as planned each worker takes; the fastest beside that does not.
std::vector<double> slower_than(const partitioner::Capacities& planned,
                                const partitioner::Capacities& now) {
  std::vector<double> times;
  for (size_t worker = 0; worker < now.workers.size(); ++worker)
    times.push_back(planned.workers[worker].speed / now.workers[worker].speed);
  const double least = *std::ranges::min_element(times);
  for (double& each : times) each /= least;
  return times;
}

int64_t bytes_of(const std::vector<MovedWeight>& moved) {
  return std::accumulate(moved.begin(), moved.end(), int64_t{0},
                         [](int64_t sum, const MovedWeight& each) { return sum + each.bytes; });
}

std::string moved_text(const std::vector<MovedWeight>& moved) {
  if (moved.empty()) return "no weight moves";
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kWeightsTold, moved.size()); ++i)
    names.push_back(format("{} to worker {}", moved[i].name, moved[i].to));
  if (moved.size() > kWeightsTold) names.push_back(format("{} more", moved.size() - kWeightsTold));
  return format("{} of weights move: {}", bytes_text(bytes_of(moved)), fmt::join(names, ", "));
}

std::string slowness_text(const std::vector<double>& slowness) {
  const size_t worker = slowest(slowness);
  if (slowness[worker] < kAnother) return "operators take other times than was planned";
  return format("worker {} takes {:.2f} times as long as was planned, beside the fastest", worker,
                slowness[worker]);
}

Json devices_json(const partitioner::Capacities& capacities) {
  Json devices = {{"kerf_devices", 1}};
  devices.update(partitioner::capacities_json(capacities));
  return devices;
}

std::string write(const fs::path& folder, const char* name, const Json& json) {
  runtime::write_file_atomic(folder / name, json_text(json, 1) + "\n");
  return (folder / name).string();
}

Json returning_json(const std::vector<runtime::Returning>& returning) {
  Json all = Json::array();
  for (const runtime::Returning& each : returning)
    all.push_back(
        {{"worker", each.worker}, {"host", each.origin.host}, {"process", each.origin.process}});
  return all;
}

std::vector<runtime::Returning> read_returning(const Json& json, const std::string& where) {
  std::vector<runtime::Returning> all;
  for (const Json& each : json_array(json, "returning", where))
    all.push_back(
        {{json_string(each, "host", where), static_cast<int>(json_int(each, "process", where))},
         static_cast<int>(json_int(each, "worker", where))});
  return all;
}

}  // namespace

Rebalanced read_rebalanced(const std::string& file) {
  const Json json = parse_json(runtime::read_file(file, kMostText), file);
  Rebalanced rebalanced{{}, read_returning(json, file), json_int(json, "left_ns", file)};
  for (const Json& each : json_array(json, "rebalances", file))
    from_json(each, file, rebalanced.all.emplace_back());
  return rebalanced;
}

std::vector<std::string> flags_to_go_on(const fs::path& folder, const Agreed& agreed,
                                        const std::vector<runtime::Returning>& returning) {
  std::error_code failed;
  fs::create_directories(folder, failed);  // what fails shows below
  return {"--profile",
          write(folder, "profile.json", agreed.profile),
          "--devices",
          write(folder, "devices.json", agreed.devices),
          "--rebalanced",
          write(folder, "rebalanced.json",
                {{"left_ns", agreed.rebalanced.left_ns},
                 {"returning", returning_json(returning)},
                 {"rebalances", to_json(agreed.rebalanced.all)}})};
}

std::vector<std::string> flags_of_fewer(const fs::path& folder, int workers,
                                        Rebalanced rebalanced) {
  partitioner::Capacities alike;
  alike.workers.resize(static_cast<size_t>(workers));
  return {"--devices", write(folder, "devices.json", devices_json(alike)), "--rebalanced",
          write(folder, "rebalanced.json",
                {{"left_ns", rebalanced.left_ns},
                 {"returning", Json::array()},
                 {"rebalances", to_json(rebalanced.all)}})};
}

Rebalance::Rebalance(const PlanFlags& flags, const Planned& planned, schedmp::Schedule schedule,
                     int64_t traced_steps, Rebalanced& before, int64_t began_ns)
    : flags_(flags),
      planned_(planned),
      schedule_(std::move(schedule)),
      traced_steps_(traced_steps),
      began_ns_(began_ns),
      before_(before),
      paces_(planned.plan.workers_bound()) {}

// What it took to begin is what it would take again.
void Rebalance::note_first_step(int64_t now_ns) {
  cost_ = seconds_between(began_ns_, now_ns);
  if (before_.all.empty() || before_.all.back().seconds > 0) return;
  cost_ = before_.all.back().seconds = seconds_between(before_.left_ns, now_ns);
}

// The first steps are traced, and warm up.
void Rebalance::computed(const schedmp::Training& training, const schedmp::StepRecord& step,
                         std::span<const int64_t> compute_ns) {
  const int64_t now_ns = runtime::now_ns();
  if (steps_++ == 0) note_first_step(now_ns);
  if (agreed_ || steps_ <= traced_steps_) return;
  if (step.rows == planned_.plan.batch) paces_.add(compute_ns, now_ns);
  if (!proposal_.valid()) return weigh(training, now_ns);
  if (proposal_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  decide(proposal_.get(), step.step + 1, training.total_steps() - step.step - 1, now_ns);
}

void Rebalance::weigh(const schedmp::Training& training, int64_t now_ns) {
  if (!before_.all.empty() && schedmp::is_too_soon(seconds_between(before_.left_ns, now_ns), cost_))
    return;
  const auto slowness = paces_.slowness();
  if (!slowness || (!weighed_.empty() && !schedmp::differ(*slowness, weighed_, kAnother))) return;
  weighed_ = *slowness;
  proposal_ = std::async(std::launch::async,
                         [this, what = measured(training, *slowness)] { return propose(what); });
}

Rebalance::Measured Rebalance::measured(const schedmp::Training& training,
                                        const std::vector<double>& slowness) const {
  std::vector<runtime::WorkerTrace> traces;
  for (const std::vector<runtime::Span>& spans : training.spans())
    traces.push_back({static_cast<int32_t>(traces.size()), {}, spans});
  const partitioner::Capacities planned = capacities_of(planned_);
  partitioner::Capacities at_first = planned;
  const std::vector<double> speeds =
      speeds_by_shares(planned_.model, planned_.plan, traces, paces_.first(), speeds_of(planned));
  for (size_t worker = 0; worker < speeds.size(); ++worker)
    at_first.workers[worker].speed = speeds[worker];
  const auto times =
      operator_times(planned_.model, planned_.plan, traces, paces_.first(), at_first);
  const partitioner::Capacities now = slowed(at_first, slowness);
  return {slower_than(planned, now), profile_file(planned_.model, planned_.plan, "cpu", times),
          profile_of(times), now};
}

// Of another thread, while the run goes on.
Rebalance::Proposal Rebalance::propose(Measured measured) const {
  Proposal proposal;
  proposal.measured = std::move(measured);
  if (proposal.measured.profile.empty()) {
    proposal.failure = "the trace had no room for a whole step; use fewer --micro-batches";
    return proposal;
  }
  PlanFlags flags = flags_;
  flags.measured = proposal.measured.profile;
  flags.steering.devices.clear();
  flags.steering.devices_of_run = proposal.measured.capacities;
  try {
    const Planned anew = make_plan_of(flags, true);
    const auto seconds_of = [&](const Planned& of, const schedmp::Schedule& schedule) {
      partitioner::DeviceSpeed speed;
      speed.profile = proposal.measured.profile;
      speed.capacities = proposal.measured.capacities;
      const auto step = schedmp::simulated_step([&](const auto&, const auto&) { return schedule; });
      const auto seconds = step->step_seconds(of.model, of.plan, speed);
      KERF_CHECK(seconds.has_value(), "a plan that runs has a step");
      return *seconds;
    };
    proposal.before_seconds = seconds_of(planned_, schedule_);
    proposal.after_seconds = seconds_of(anew, fitting_schedule_of(flags, anew).schedule);
    proposal.moved = moved_weights(planned_, anew);
  } catch (const Error& error) {
    proposal.failure = first_line(error.what());
  }
  return proposal;
}

void Rebalance::decide(const Proposal& proposal, int64_t step, int64_t steps_left, int64_t now_ns) {
  const std::vector<double>& slowness = proposal.measured.slowness;
  const bool is_slow = slowness[slowest(slowness)] >= kAnother;
  if (!proposal.failure.empty())
    return tell_notes({format("{}, and there is no plan for that: {}", slowness_text(slowness),
                              proposal.failure)});
  if (schedmp::pays({.before = proposal.before_seconds,
                     .after = proposal.after_seconds,
                     .step = paces_.step_seconds(),
                     .steps_left = steps_left,
                     .cost = cost_}))
    return agree(proposal, step, now_ns);
  if (is_slow)
    tell_notes(
        {format("{}: the plan stays, since one for that would have steps of {} in place of "
                "{}, as predicted, and {} are left",
                slowness_text(slowness), human_seconds(proposal.after_seconds),
                human_seconds(proposal.before_seconds), plural(steps_left, "step"))});
}

void Rebalance::agree(const Proposal& proposal, int64_t step, int64_t now_ns) {
  const std::vector<double>& slowness = proposal.measured.slowness;
  const auto worker = static_cast<int>(slowest(slowness));
  agreed_ = Agreed{
      {before_.all, {}, now_ns},
      proposal.measured.profile_file,
      devices_json(proposal.measured.capacities),
      format("{}: goes on behind {} by a plan for that, whose step is predicted to "
             "take {} in place of {}; {}",
             slowness_text(slowness), plural(step, "step"), human_seconds(proposal.after_seconds),
             human_seconds(proposal.before_seconds), moved_text(proposal.moved))};
  agreed_->rebalanced.all.push_back({.step = step,
                                     .worker = worker,
                                     .slowness = slowness[static_cast<size_t>(worker)],
                                     .before_seconds = proposal.before_seconds,
                                     .after_seconds = proposal.after_seconds,
                                     .bytes = bytes_of(proposal.moved)});
}

}  // namespace kerf::apps
