#include "partitioner/cuts/ideal_search.h"

#include <algorithm>

#include "partitioner/at.h"
#include "runtime/error.h"

namespace kerf::partitioner {
namespace {

// Sums of the same figures in another order differ by rounding.
constexpr double kSumRounding = 1e-11;
constexpr double kHeldRounding = 1e-9;          // of all that is held against what is left of it
constexpr std::ptrdiff_t kLookedAtByStep = 32;  // values and states; of more, a step counts more

}  // namespace

IdealSearch::IdealSearch(const Units& units, const Ideals& ideals, const IdealFacts& facts,
                         const StageLimits& limits)
    : units_(units), ideals_(ideals), facts_(facts), limits_(limits), stage_now_(units) {
  KERF_CHECK(units.work.size() <= kMostTypes, "{} device types", units.work.size());
  count_.resize(units.work.size());
  for (const int type : limits.device_type) ++count_[at(type)];
  if (limits.is_ordered())
    number_stages();
  else
    number_states();
  std::vector<double> least;
  double total = 0;
  for (int unit = 0; unit < units.size(); ++unit) {
    double work = kNever;
    for (size_t type = 0; type < count_.size(); ++type)
      if (count_[type] > 0) work = std::min(work, units.work[type][at(unit)]);
    least.push_back(work);
    total += work;
  }
  left_.assign(at(ideals.size()), kNever);
  left_[0] = total;
  for (int ideal = 0; ideal < ideals.size(); ++ideal)
    for (const Ideals::Step& step : ideals.steps(ideal))
      left_[at(step.ideal)] = std::max(0.0, left_[at(ideal)] - least[at(step.unit)]);
  left_.back() = 0;  // sums leave rounding
  find_left_held();
}

void IdealSearch::number_states() {
  int states = 1;
  for (const int count : count_) {
    stride_.push_back(states);
    states *= count + 1;
  }
  for (int state = 0; state < states; ++state) {
    std::vector<int>& used = used_.emplace_back();
    int stages = 0;
    bool complete = true;
    for (size_t type = 0; type < count_.size(); ++type) {
      used.push_back(state / stride_[type] % (count_[type] + 1));
      stages += used.back();
      complete = complete && (used.back() == count_[type] || is_host(type));
    }
    stage_.push_back(stages);
    complete_.push_back(complete);
  }
}

// A state for each number of stages.
void IdealSearch::number_stages() {
  const auto stages = static_cast<int>(limits_.device_type.size());
  stride_.assign(count_.size(), 1);
  used_.resize(at(stages) + 1);
  for (int stage = 0; stage <= stages; ++stage) {
    stage_.push_back(stage);
    complete_.push_back(stage == stages);
  }
}

// What one unit alone holds is in one stage. A host takes whatever is left.
void IdealSearch::find_left_held() {
  if (limits_.host_type >= 0) return;
  const int in_flight =
      *std::min_element(limits_.micro_batches.begin(), limits_.micro_batches.end());
  std::vector<double> own(at(units_.size()));
  for (const UnitHeld& held : units_.held)
    if (held.units.size() == 1)
      own[at(held.units[0])] += held.fixed + in_flight * held.per_micro_batch;
  left_held_.assign(at(ideals_.size()), 0);
  for (const double bytes : own) left_held_[0] += bytes;
  for (int ideal = 0; ideal < ideals_.size(); ++ideal)
    for (const Ideals::Step& step : ideals_.steps(ideal))
      left_held_[at(step.ideal)] = std::max(0.0, left_held_[at(ideal)] - own[at(step.unit)]);
  left_held_.back() = 0;  // sums leave rounding
}

// Whether so many stages cannot hold what the ideal lacks.
bool IdealSearch::lacks_room(const Task& task, int ideal, int stages) const {
  if (left_held_.empty()) return false;
  const double most = task.goal == Goal::kMemory
                          ? task.value
                          : *std::max_element(limits_.memory.begin(), limits_.memory.end());
  return left_held_[at(ideal)] > stages * most * (1 + kHeldRounding);
}

std::optional<IdealChain> IdealSearch::least_bottleneck(double limit, int64_t visits) {
  return run({Goal::kBottleneck, limit, limit, false, visits});
}

std::optional<IdealChain> IdealSearch::fewest_bytes(double bottleneck, double limit,
                                                    bool keep_close, int64_t visits) {
  return run({Goal::kBytes, bottleneck, limit, keep_close, visits});
}

std::optional<IdealChain> IdealSearch::least_memory(double limit, int64_t visits) {
  return run({Goal::kMemory, kNever, limit, false, visits});
}

std::optional<IdealChain> IdealSearch::run(const Task& given) {
  Task task = given;
  task.price *= 1 + kSumRounding;
  task.value *= 1 + kSumRounding;
  best_.assign(at(ideals_.size()) * used_.size(), {});
  best(0, 0).value = 0;
  to_go_ = {};
  if (task.goal == Goal::kBytes && limits_.host_type < 0)
    to_go_ = {units_, ideals_, facts_, left_, {stage_.back(), task.price, task.keep_close}};
  int64_t visits = 0;
  for (int ideal = 0; ideal + 1 < ideals_.size(); ++ideal) {
    find_live(task, ideal);
    if (live_.empty() && !last_live_) continue;
    const std::vector<int> before = ideals_.units_in(ideal);
    stage_now_.start(before);
    if (last_live_) {
      visits += units_.size() - static_cast<int64_t>(before.size());
      finish(task, ideal, before);
    }
    if (!live_.empty() && !explore(task, ideal, visits)) return std::nullopt;
    if (visits > task.visits) return std::nullopt;
  }
  return chain();
}

// Those from which the rest can still be done within the limits.
void IdealSearch::find_live(const Task& task, int ideal) {
  live_.clear();
  least_live_ = kNever;
  last_live_ = false;
  const int stages = stage_.back();
  for (int state = 0; state < states(); ++state) {
    const double value = best(ideal, state).value;
    if (value == kNever) continue;
    const int left = stages - stage_[at(state)];
    if (left == 0) continue;
    const double to_go = to_go_.behind(ideal, stage_[at(state)]);
    if (task.goal == Goal::kBytes && value + facts_.alive[at(ideal)] + to_go > task.value) continue;
    if (left_[at(ideal)] > left * task.price || lacks_room(task, ideal, left)) continue;
    if (left == 1) {
      last_live_ = true;
      continue;
    }
    live_.push_back(state);
    least_live_ = std::min(least_live_, value + to_go);
  }
}

bool IdealSearch::within(const Task& task, const StageTotals& totals, int worker) const {
  double work = kNever;
  double memory = kNever;
  for (size_t type = 0; type < count_.size(); ++type)
    if (count_[type] > 0) work = std::min(work, totals.work[type]);
  if (work + totals.least_wire > task.price) return false;
  if (task.goal == Goal::kBytes && least_live_ + totals.least_bytes > task.value) return false;
  if (limits_.host_type >= 0) return true;
  bool fits = false;
  for (const int state : live_) {
    const size_t stage = at(stage_[at(state)]);
    memory = totals.fixed + limits_.micro_batches[stage] * totals.per_micro_batch;
    const double most =
        task.goal == Goal::kMemory ? task.value : limits_.memory[stage] * (1 + kSumRounding);
    fits = fits || (memory <= most && may_be_on(at(state), worker));
  }
  return fits;
}

// Every ideal that a stage from `start` may lead to, each once. Empty-handed where that takes more
// than the task allows.
bool IdealSearch::explore(const Task& task, int start, int64_t& visits) {
  std::vector<Frame> frames{{start, 0, -1, {}, {}}};
  while (!frames.empty()) {
    Frame& now = frames.back();
    const auto steps = ideals_.steps(now.ideal);
    const int last = now.unit < 0 ? -1 : ideals_.rank(now.unit);
    while (now.step < steps.size() && ideals_.rank(steps[now.step].unit) < last) ++now.step;
    if (now.step == steps.size()) {
      if (now.unit >= 0) stage_now_.remove(now.unit);
      frames.pop_back();
      continue;
    }
    const Ideals::Step step = steps[now.step++];
    visits += 1 + (stage_now_.degree(step.unit) + std::ssize(live_)) / kLookedAtByStep;
    if (visits > task.visits) return false;
    StageRules rules = now.rules;
    if (limits_.rules != nullptr && !limits_.rules->add(step.unit, rules)) continue;
    const StageTotals totals = stage_now_.add(step.unit, now.totals);
    if (!within(task, totals, rules.worker)) {
      stage_now_.remove(step.unit);
      continue;
    }
    for (const int state : live_) relax(task, start, state, step.ideal, totals, rules.worker);
    frames.push_back({step.ideal, 0, step.unit, totals, std::move(rules)});
  }
  return true;
}

// The last stage takes what is left.
void IdealSearch::finish(const Task& task, int start, const std::vector<int>& before) {
  std::vector<bool> has(at(units_.size()));
  for (const int unit : before) has[at(unit)] = true;
  std::vector<int> rest;
  StageRules rules;
  for (int unit = 0; unit < units_.size(); ++unit)
    if (!has[at(unit)]) {
      if (limits_.rules != nullptr && !limits_.rules->add(unit, rules)) return;
      rest.push_back(unit);
    }
  StageTotals totals;
  for (const int unit : rest) totals = stage_now_.add(unit, totals);
  for (int state = 0; state < states(); ++state)
    if (stage_[at(state)] + 1 == stage_.back() && best(start, state).value < kNever)
      relax(task, start, state, ideals_.size() - 1, totals, rules.worker);
  for (const int unit : rest) stage_now_.remove(unit);
}

void IdealSearch::relax(const Task& task, int start, int state, int end, const StageTotals& totals,
                        int worker) {
  if (!may_be_on(at(state), worker)) return;
  const double before = best(start, state).value;
  const size_t stage = at(stage_[at(state)]);
  const int left = stage_.back() - static_cast<int>(stage) - 1;
  const bool last = end + 1 == ideals_.size();
  if ((left == 0 && !last) || left_[at(end)] > left * task.price) return;
  if (task.keep_close && facts_.parted[at(end)]) return;
  const double memory = totals.fixed + limits_.micro_batches[stage] * totals.per_micro_batch;
  for (size_t type = 0; type < count_.size(); ++type) {
    const int next = state + stride_[type];
    if (!may_use(at(state), type) || (last && !complete_[at(next)])) continue;
    const double price = totals.work[type] + totals.wire;
    if (price > task.price) continue;
    const bool capped = !is_host(type);
    if (capped && memory > limits_.memory[stage] * (1 + kSumRounding)) continue;
    const double value = task.goal == Goal::kBytes        ? before + totals.bytes
                         : task.goal == Goal::kBottleneck ? std::max(before, price)
                                                          : std::max(before, capped ? memory : 0);
    Best& known = best(end, next);
    const double more =
        task.goal == Goal::kBytes
            ? facts_.alive[at(end)] + to_go_.behind(end, static_cast<int>(stage) + 1)
            : 0;
    if (value + more > task.value || value >= known.value) continue;
    known = {value, start, static_cast<int>(type)};
  }
}

IdealChain IdealSearch::chain() {
  IdealChain result;
  int ideal = ideals_.size() - 1;
  int state = -1;
  for (int each = 0; each < states(); ++each)
    if (const double value = best(ideal, each).value; value < result.value) {
      result.value = value;
      state = each;
    }
  if (!result.found()) return result;
  while (ideal > 0) {
    const Best& step = best(ideal, state);
    result.ideals.push_back(ideal);
    result.device_types.push_back(step.type);
    ideal = step.start;
    state -= stride_[at(step.type)];
  }
  std::reverse(result.ideals.begin(), result.ideals.end());
  std::reverse(result.device_types.begin(), result.device_types.end());
  return result;
}

}  // namespace kerf::partitioner
