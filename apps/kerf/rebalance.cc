#include "apps/kerf/rebalance.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "apps/kerf/plan_schedule.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/profile_file.h"
#include "apps/report/operator_times.h"
#include "apps/report/table.h"
#include "apps/report/worker_speeds.h"
#include "runtime/error.h"
#include "runtime/time.h"
#include "schedmp/simulate.h"
#include "schedmp/training/proof.h"

namespace kerf::apps {

namespace {

constexpr double kAnother = RunRecord::Rebalance::kSlow;  // slowness that is worth another look
constexpr double kSpeeds = 1e6;          // that a file of devices may have, and their inverse
constexpr size_t kWeightsTold = 3;       // by name
constexpr double kBetweenSearches = 20;  // times what the last took
// In which workers that connected are back. For longer, people are waited for.
constexpr double kComeBackSeconds = 5;

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

bool is_slow(const std::vector<double>& slowness) {
  return slowness[slowest(slowness)] >= kAnother;
}

std::string slowness_text(const std::vector<double>& slowness) {
  if (!is_slow(slowness)) return "operators take other times than was planned";
  const size_t worker = slowest(slowness);
  return format(
      "worker {} takes {:.2f} times as long as was planned, beside the one of which that "
      "is least",
      worker, slowness[worker]);
}

double step_seconds(const Planned& of, const schedmp::Schedule& schedule,
                    const partitioner::Profile& profile,
                    const partitioner::Capacities& capacities) {
  partitioner::DeviceSpeed speed;
  speed.profile = profile;
  speed.capacities = capacities;
  const auto step = schedmp::simulated_step([&](const auto&, const auto&) { return schedule; });
  const auto seconds = step->step_seconds(of.model, of.plan, speed);
  KERF_CHECK(seconds.has_value(), "a plan that runs has a step");
  return *seconds;
}

}  // namespace

Rebalance::Rebalance(Run run) : run_(std::move(run)), paces_(run_.planned.plan.workers_bound()) {
  if (!run_.before.all.empty()) tried_ns_ = run_.before.left_ns;
}

void Rebalance::are_here(std::span<const runtime::WorkerInfo> workers, double waited_seconds) {
  waited_ = std::max(0.0, waited_seconds - kComeBackSeconds);
  for (const runtime::WorkerInfo& each : workers) {
    if (each.device == kDefaultDevice) continue;
    const std::string what = format(
        "worker {} computes on {}, whose host does not know what of a step it computes; this is "
        "for workers on CPUs",
        each.worker, each.device);
    require(!run_.before.all.empty(), "--rebalance", what);
    off_ = true;
    return tell_notes({format("--rebalance: {}: the plan stays from now on", what)});
  }
}

// What it took to begin is what it would take again.
void Rebalance::note_first_step(int64_t now_ns) {
  cost_ = seconds_between(run_.began_ns, now_ns) - waited_;
  Rebalanced& before = run_.before;
  if (before.all.empty() || before.all.back().seconds > 0) return;
  before.all.back().seconds = seconds_between(before.left_ns, now_ns);
  cost_ = before.all.back().seconds - waited_;
}

// The first steps are traced, and warm up.
void Rebalance::computed(const schedmp::Training& training, const schedmp::StepRecord& step,
                         std::span<const int64_t> compute_ns) {
  const int64_t now_ns = runtime::now_ns();
  if (steps_++ == 0) note_first_step(now_ns);
  if (off_ || agreed_ || steps_ <= run_.options.trace_steps) return;
  if (search_.valid()) return look_at_search(now_ns);
  if (simulation_.valid())
    return look_at_simulation(step, training.total_steps() - step.step - 1, now_ns);
  if (step.rows == run_.planned.plan.batch) paces_.add(compute_ns, now_ns);
  if (found_) return simulate();
  weigh(training, now_ns);
}

// The one before is done.
template <class Result, class Do>
std::future<Result> Rebalance::beside_the_loop(Do act) {
  std::packaged_task<Result(std::stop_token)> task(std::move(act));
  std::future<Result> result = task.get_future();
  searcher_ = std::jthread(std::move(task));
  return result;
}

// Changes take a twentieth of the time at most, and so do searches.
void Rebalance::weigh(const schedmp::Training& training, int64_t now_ns) {
  if (tried_ns_ && schedmp::is_too_soon(seconds_between(*tried_ns_, now_ns), cost_)) return;
  if (seconds_between(search_ns_, now_ns) < kBetweenSearches * search_seconds_) return;
  const auto slowness = paces_.slowness();
  if (!slowness || (!weighed_.empty() && !schedmp::differ(*slowness, weighed_, kAnother))) return;
  weighed_ = *slowness;
  search_ns_ = now_ns;
  search_ =
      beside_the_loop<Proposal>([this, what = measured(training, *slowness)](
                                    const std::stop_token& stop) { return propose(stop, what); });
}

Rebalance::Measured Rebalance::measured(const schedmp::Training& training,
                                        const std::vector<double>& slowness) const {
  const auto& [model, plan] = std::tie(run_.planned.model, run_.planned.plan);
  std::vector<runtime::WorkerTrace> traces;
  for (const std::vector<runtime::Span>& spans : training.spans())
    traces.push_back({static_cast<int32_t>(traces.size()), {}, spans});
  partitioner::Capacities at_first = capacities_of(run_.planned);
  const std::vector<double> speeds =
      speeds_by_shares(model, plan, traces, paces_.first(), speeds_of(at_first));
  for (size_t worker = 0; worker < speeds.size(); ++worker)
    at_first.workers[worker].speed = speeds[worker];
  const auto times = operator_times(model, plan, traces, paces_.first(), at_first);
  return {profile_file(model, plan, kDefaultDevice, times), profile_of(times), at_first,
          slowed(at_first, slowness)};
}

// Of another thread, while the run goes on.
Rebalance::Proposal Rebalance::propose(const std::stop_token& stop, Measured measured) const {
  Proposal proposal{std::move(measured), {}};
  if (proposal.measured.profile.empty())
    proposal.failure = "the trace had no room for a whole step; use fewer --micro-batches";
  else
    plan_for(stop, proposal);
  return proposal;
}

void Rebalance::plan_for(const std::stop_token& stop, Proposal& proposal) const {
  PlanFlags flags = run_.flags;
  flags.measured = proposal.measured.profile;
  flags.steering.devices.clear();
  flags.steering.devices_of_run = proposal.measured.now;
  try {
    Planned anew = make_plan_until(stop, flags);
    proposal.schedule = fitting_schedule_of(flags, anew).schedule;
    prove(anew, proposal.schedule);
    proposal.moved = moved_weights(run_.planned, anew);
    proposal.plan = std::move(anew);
  } catch (const SearchStopped&) {
    proposal.failure = "the run is over";
  } catch (const std::exception& error) {  // no memory for it, too: the run stays as it is
    proposal.failure = first_line(error.what());
  }
}

// As the next process will, before anything of it starts. Throws what it would.
void Rebalance::prove(const Planned& plan, const schedmp::Schedule& schedule) const {
  schedmp::TrainingOptions options = run_.options;
  options.batch = plan.plan.batch;
  options.setting = plan.setting;
  options.memory = plan.memory;
  const schedmp::TrainingProof proof(plan.model, plan.plan, schedule, options);
  const std::vector<int64_t>& peaks = proof.verdict().peak_bytes;
  check_host_memory(run_.crew, {peaks.begin(), peaks.end()}, "the plan stays");
}

// Windows that a search took part of say nothing.
void Rebalance::look_at_search(int64_t now_ns) {
  if (search_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  Proposal proposal = search_.get();
  search_seconds_ = seconds_between(std::exchange(search_ns_, now_ns), now_ns);
  paces_.start_over();
  if (proposal.failure.empty())
    found_ = std::move(proposal);
  else
    tell_notes(
        {format("{}, and there is no plan for that: {}",
                slowness_text(slower_than(capacities_of(run_.planned), proposal.measured.now)),
                proposal.failure)});
}

// Of another thread, while the run goes on.
Rebalance::Outlook Rebalance::outlook(const std::stop_token& stop, const Proposal& proposal,
                                      const std::vector<double>& slowness) const {
  const partitioner::Capacities now = slowed(proposal.measured.at_first, slowness);
  const auto seconds_of = [&](const Planned& plan, const schedmp::Schedule& schedule) {
    if (stop.stop_requested()) throw SearchStopped();
    return step_seconds(plan, schedule, proposal.measured.profile, now);
  };
  return {slower_than(capacities_of(run_.planned), now), seconds_of(run_.planned, run_.schedule),
          seconds_of(*proposal.plan, proposal.schedule)};
}

void Rebalance::simulate() {
  const auto slowness = paces_.slowness();
  if (!slowness) return;
  Weighed weighed{std::move(*std::exchange(found_, std::nullopt))};
  simulation_ = beside_the_loop<Weighed>(
      [this, by = *slowness, weighed = std::move(weighed)](const std::stop_token& stop) mutable {
        try {
          weighed.outlook = outlook(stop, weighed.proposal, by);
        } catch (const std::exception& error) {
          weighed.failure = first_line(error.what());
        }
        return std::move(weighed);
      });
}

// What was measured meanwhile says nothing, as it took a core.
void Rebalance::look_at_simulation(const schedmp::StepRecord& step, int64_t steps_left,
                                   int64_t now_ns) {
  if (simulation_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  const Weighed weighed = simulation_.get();
  if (!weighed.failure.empty()) return put_off(now_ns, weighed.failure);
  decide(weighed, step.step + 1, steps_left, now_ns);
  paces_.start_over();
}

void Rebalance::decide(const Weighed& weighed, int64_t steps_done, int64_t steps_left,
                       int64_t now_ns) {
  const auto& [proposal, now, failure] = weighed;
  if (schedmp::pays({.before = now.before_seconds,
                     .after = now.after_seconds,
                     .step = paces_.step_seconds(),
                     .steps_left = steps_left,
                     .cost = cost_}))
    return agree(proposal, now, steps_done, now_ns);
  if (is_slow(now.slowness))
    tell_notes(
        {format("{}: the plan stays, since one for that would have steps of {} in place of "
                "{}, as predicted, and {} are left",
                slowness_text(now.slowness), human_seconds(now.after_seconds),
                human_seconds(now.before_seconds), plural(steps_left, "step"))});
}

void Rebalance::agree(const Proposal& proposal, const Outlook& outlook, int64_t step,
                      int64_t now_ns) {
  const size_t worker = slowest(outlook.slowness);
  Rebalanced rebalanced{run_.before.all, now_ns};
  rebalanced.all.push_back({.step = step,
                            .worker = static_cast<int>(worker),
                            .slowness = outlook.slowness[worker],
                            .before_seconds = outlook.before_seconds,
                            .after_seconds = outlook.after_seconds,
                            .bytes = bytes_of(proposal.moved)});
  try {
    agreed_ = {
        flags_to_go_on(run_.folder, rebalanced, proposal.measured.profile_file,
                       proposal.measured.now, run_.planned.model),
        format("{}: planned anew behind {}, and goes on by a plan whose step is predicted to "
               "take {} in place of {}; {}",
               slowness_text(outlook.slowness), plural(step, "step"),
               human_seconds(outlook.after_seconds), human_seconds(outlook.before_seconds),
               moved_text(proposal.moved))};
  } catch (const Error& error) {
    put_off(now_ns, format("{}, and {}", slowness_text(outlook.slowness), error.what()));
  }
}

// Asked again, it could not: the loop told why.
bool Rebalance::leaves() {
  if (!agreed_) return false;
  if (!std::exchange(leaving_, true)) return true;
  put_off(runtime::now_ns(), "there is no checkpoint to go on from");
  return false;
}

void Rebalance::put_off(int64_t now_ns, const std::string& why) {
  agreed_.reset();
  leaving_ = false;
  weighed_.clear();
  paces_.start_over();
  tried_ns_ = now_ns;
  tell_notes({format("the plan stays for now, and another is looked for later: {}", why)});
}

}  // namespace kerf::apps
