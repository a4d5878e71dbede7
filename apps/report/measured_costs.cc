#include "apps/report/measured_costs.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "schedmp/search/plan_costs.h"

namespace kerf::apps {

using runtime::Span;
using schedmp::Action;
using schedmp::ActionKind;
using schedmp::Moment;

namespace {

double seconds_between(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

// 0 of nothing.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of the gradients that an action's operators compute, what goes into those of inputs.
double share_of_inputs(const StepSpans::OfWorker& worker, const Span& action) {
  double inputs = 0, weights = 0;
  const auto first = std::lower_bound(
      worker.operators.begin(), worker.operators.end(), action.begin_ns,
      [](const Span* span, int64_t begin_ns) { return span->begin_ns < begin_ns; });
  for (auto each = first; each != worker.operators.end() && (*each)->end_ns <= action.end_ns;
       ++each) {
    const double seconds = seconds_between((*each)->begin_ns, (*each)->end_ns);
    if (std::string_view((*each)->name).ends_with(" input gradient")) inputs += seconds;
    if (std::string_view((*each)->name).ends_with(" weight gradient")) weights += seconds;
  }
  return inputs + weights > 0 ? inputs / (inputs + weights) : 0.5;
}

// What was measured of a stage's actions.
struct OfStage {
  std::vector<double> forward, input_gradient, weight_gradient;
  std::vector<double> updates;  // of one, in each step, of the worker that takes longest

  void add(const Moment& moment, const StepSpans::OfWorker& worker, const Span& span) {
    if (moment.action.kind == ActionKind::kForward) forward.push_back(moment.busy);
    if (moment.action.kind == ActionKind::kInputGradient) input_gradient.push_back(moment.busy);
    if (moment.action.kind == ActionKind::kWeightGradient) weight_gradient.push_back(moment.busy);
    if (moment.action.kind != ActionKind::kBackward) return;
    const double inputs = share_of_inputs(worker, span);
    input_gradient.push_back(moment.busy * inputs);
    weight_gradient.push_back(moment.busy * (1 - inputs));
  }
};

// What each micro-batch's actions took in the steps, where they differ.
class OfMicroBatches {
 public:
  explicit OfMicroBatches(const std::vector<schedmp::MicroBatchShare>& shares)
      : largest_(schedmp::largest_of(shares)), seconds_(shares.size()) {}

  void add(const Moment& moment) {
    if (moment.action.micro_batch < 0 || seconds_.empty()) return;
    if (!is_of_updates(moment.action.kind)) seconds_[within_step(moment.action)] += moment.busy;
  }
  // Stages' costs are those of the largest; where none differ, of all.
  bool counts(const Action& action) const {
    return seconds_.empty() ||
           (action.micro_batch >= 0 && within_step(action) == static_cast<size_t>(largest_));
  }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  // What is ahead of a step is of the next one's.
  size_t within_step(const Action& action) const {
    return static_cast<size_t>(action.micro_batch) % seconds_.size();
  }

  int largest_;
  std::vector<double> seconds_;
};

struct Message {
  int from = -1;
  int to = -1;
  int64_t sent_ns = 0;
  int64_t taken_ns = 0;
  int64_t awaited_from_ns = INT64_MAX;

  bool between_workers() const { return from >= 0 && to >= 0 && from != to; }
  bool awaited() const { return awaited_from_ns < sent_ns; }
  double seconds() const { return seconds_between(sent_ns, taken_ns); }
};

std::vector<Message> messages_between_workers(const std::vector<StepSpans>& steps) {
  std::map<uint64_t, Message> messages;
  for (const StepSpans& step : steps)
    for (size_t worker = 0; worker < step.workers.size(); ++worker) {
      const StepSpans::OfWorker& of = step.workers[worker];
      for (const Span* span : of.messages) {
        if (span->flow == 0) continue;
        Message& message = messages[span->flow];
        const bool sends = span->kind == Span::Kind::kSend;
        (sends ? message.from : message.to) = static_cast<int>(worker);
        (sends ? message.sent_ns : message.taken_ns) = span->begin_ns;
      }
      for (const Span* span : of.waits)
        if (span->flow != 0) messages[span->flow].awaited_from_ns = span->begin_ns;
    }
  std::vector<Message> all;
  for (const auto& [flow, each] : messages)
    if (each.between_workers()) all.push_back(each);
  return all;
}

// What a message takes from one worker to another: the median of those that were waited for. Where
// none was, they lay there until they were taken, and the one that lay shortest says most.
struct OneWay {
  double seconds = 0;
  bool awaited = false;
};
OneWay one_way(const std::vector<Message>& messages) {
  std::vector<double> awaited;
  double least = messages.front().seconds();
  for (const Message& each : messages) {
    if (each.awaited()) awaited.push_back(each.seconds());
    least = std::min(least, each.seconds());
  }
  if (awaited.empty()) return {least, false};
  return {median(std::move(awaited)), true};
}

// Clocks of two workers are aligned to some tens of microseconds: what one direction gains by that
// the other loses, so that both together are right. Of what lay there that is the most it can be.
OneWay both_ways(const OneWay& there, const OneWay& back) {
  for (const OneWay* way : {&there, &back})
    if (there.awaited != back.awaited && way->awaited && way->seconds > 0) return *way;
  return {(there.seconds + back.seconds) / 2, there.awaited || back.awaited};
}

double transfer_of(const std::vector<StepSpans>& steps) {
  std::map<std::pair<int, int>, std::vector<Message>> ways;  // by sender and receiver
  for (const Message& each : messages_between_workers(steps))
    ways[{each.from, each.to}].push_back(each);
  std::vector<double> awaited, others;
  for (const auto& [way, there] : ways) {
    const auto back = ways.find({way.second, way.first});
    if (back != ways.end() && way.second < way.first) continue;  // the other way has both
    const OneWay pair =
        back == ways.end() ? one_way(there) : both_ways(one_way(there), one_way(back->second));
    (pair.awaited ? awaited : others).push_back(pair.seconds);
  }
  if (!awaited.empty()) return std::max(0.0, median(std::move(awaited)));
  return others.empty() ? 0 : std::max(0.0, *std::min_element(others.begin(), others.end()));
}

}  // namespace

schedmp::ActionCosts measured_costs(const schedmp::Schedule& schedule,
                                    const std::vector<std::vector<Action>>& shown,
                                    const std::vector<StepSpans>& steps,
                                    std::vector<schedmp::MicroBatchShare> shares) {
  std::vector<OfStage> stages(static_cast<size_t>(schedule.stages()));
  OfMicroBatches micro_batches(shares);
  for (const StepSpans& step : steps) {
    for (OfStage& each : stages) each.updates.push_back(0);
    const auto rows = measured_rows(step, shown);
    for (size_t worker = 0; worker < rows.size(); ++worker) {
      std::vector<double> updates(stages.size()), times(stages.size());
      for (size_t i = 0; i < rows[worker].size(); ++i) {
        const Moment& each = rows[worker][i];
        const auto stage = static_cast<size_t>(each.action.stage);
        micro_batches.add(each);
        if (micro_batches.counts(each.action))
          stages[stage].add(each, step.workers[worker], *step.workers[worker].actions[i]);
        if (is_of_updates(each.action.kind)) updates[stage] += each.busy;
        if (each.action.kind == ActionKind::kUpdate && each.action.micro_batch >= 0) ++times[stage];
      }
      for (size_t stage = 0; stage < stages.size(); ++stage)
        stages[stage].updates.back() =
            std::max(stages[stage].updates.back(), updates[stage] / std::max(times[stage], 1.0));
    }
  }
  schedmp::ActionCosts costs;
  for (OfStage& each : stages)
    costs.stages.push_back({median(std::move(each.forward)), median(std::move(each.input_gradient)),
                            median(std::move(each.weight_gradient)),
                            median(std::move(each.updates))});
  costs.transfer = transfer_of(steps);
  schedmp::share_seconds(micro_batches.seconds(), shares);
  costs.shares = std::move(shares);
  return costs;
}

}  // namespace kerf::apps
