#include "apps/report/operator_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "partitioner/cost.h"

namespace kerf::apps {

namespace {

// What a span's name says beside its operator's, and where its seconds go.
struct Phase {
  std::string_view suffix;
  double OperatorSeconds::*seconds;
  double partitioner::MeasuredFactors::*factor;
};
constexpr std::array kPhases = {
    Phase{"", &OperatorSeconds::forward, &partitioner::MeasuredFactors::forward},
    Phase{" input gradient", &OperatorSeconds::input_gradient,
          &partitioner::MeasuredFactors::input_gradient},
    Phase{" weight gradient", &OperatorSeconds::weight_gradient,
          &partitioner::MeasuredFactors::weight_gradient}};

struct OfStep {
  int spans = 0;
  double seconds = 0;
};
using Steps = std::map<int64_t, OfStep>;

int64_t length_of(const runtime::Span& span) {
  return std::max<int64_t>(0, span.end_ns - span.begin_ns);
}

void add(const runtime::Span& span, OfStep& step) {
  ++step.spans;
  step.seconds += static_cast<double>(length_of(span)) * 1e-9;
}

bool is_of_operator(const runtime::Span& span) {
  return span.kind == runtime::Span::Kind::kCompute && span.step >= 0 &&
         span.lane == runtime::TraceRow::kOperators;
}

// Spans may be lost where a trace is too large to be sent: a step counts if it has the most.
double median_of(const Steps& steps) {
  int most = 0;
  for (const auto& [step, of] : steps) most = std::max(most, of.spans);
  std::vector<double> seconds;
  for (const auto& [step, of] : steps)
    if (of.spans == most) seconds.push_back(of.seconds);
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

std::map<std::string, Steps> steps_by_span(std::span<const runtime::WorkerTrace> traces) {
  std::map<std::string, Steps> found;
  for (const runtime::WorkerTrace& worker : traces)
    for (const runtime::Span& span : worker.spans) {
      if (span.kind != runtime::Span::Kind::kCompute || span.step < 0) continue;
      add(span, found[span.name][span.step]);
    }
  return found;
}

std::vector<OperatorSeconds> predicted_seconds(const partitioner::Model& model,
                                               const partitioner::Plan& plan) {
  std::vector<OperatorSeconds> seconds(static_cast<size_t>(model.nodes()));
  const std::map<int64_t, int> sizes = plan.sizes().counted(plan.batch);
  const int64_t largest = plan.largest_micro_batch();
  for (const partitioner::Computation& each : computations(model, plan.division))
    for (const auto& [samples, count] : sizes) {
      const partitioner::NodeCost cost =
          partitioner::node_cost(model, each.node, each.iterations, largest, samples);
      OperatorSeconds& of = seconds[static_cast<size_t>(each.node)];
      of.forward += count * cost.forward_seconds;
      of.input_gradient += count * cost.input_gradient_seconds;
      of.weight_gradient += count * cost.weight_gradient_seconds;
    }
  return seconds;
}

}  // namespace

std::vector<OperatorTimes> operator_times(const partitioner::Model& model,
                                          const partitioner::Plan& plan,
                                          std::span<const runtime::WorkerTrace> traces) {
  const std::map<std::string, Steps> spans = steps_by_span(traces);
  const std::vector<OperatorSeconds> predicted = predicted_seconds(model, plan);
  std::vector<OperatorTimes> times;
  for (partitioner::NodeId node = 0; node < model.nodes(); ++node) {
    OperatorTimes of{model.node(node).name, {}, predicted[static_cast<size_t>(node)]};
    for (const Phase& phase : kPhases) {
      const auto found = spans.find(of.name + std::string(phase.suffix));
      if (of.predicted.*phase.seconds > 0 && found != spans.end())
        of.measured.*phase.seconds = median_of(found->second);
    }
    if (of.measured.total() > 0) times.push_back(std::move(of));
  }
  return times;
}

std::vector<OperatorTimes> operator_times(const partitioner::Model& model,
                                          const partitioner::Plan& plan,
                                          std::span<const runtime::WorkerTrace> traces,
                                          std::span<const double> seconds,
                                          const partitioner::Capacities& capacities) {
  std::vector<runtime::WorkerTrace> scaled;
  for (const runtime::WorkerTrace& worker : traces) {
    runtime::WorkerTrace& own = scaled.emplace_back(worker);
    std::erase_if(own.spans, [](const runtime::Span& span) { return !is_of_operator(span); });
    Steps steps;
    for (const runtime::Span& span : own.spans) add(span, steps[span.step]);
    if (steps.empty()) continue;
    const double spanned = median_of(steps);
    if (spanned <= 0) continue;
    const double times =
        seconds[static_cast<size_t>(worker.worker)] / spanned * capacities.speed_of(worker.worker);
    for (runtime::Span& span : own.spans)
      span.end_ns = span.begin_ns + std::llround(times * static_cast<double>(length_of(span)));
  }
  return operator_times(model, plan, scaled);
}

partitioner::Profile profile_of(std::span<const OperatorTimes> times) {
  constexpr double kLeast = 1e-9;
  OperatorSeconds measured;
  OperatorSeconds predicted;
  partitioner::Profile profile;
  for (const OperatorTimes& each : times) {
    partitioner::MeasuredFactors& factors = profile.operators[each.name];
    for (const Phase& phase : kPhases) {
      const double seconds = each.measured.*phase.seconds;
      if (seconds <= 0) continue;
      measured.*phase.seconds += seconds;
      predicted.*phase.seconds += each.predicted.*phase.seconds;
      factors.*phase.factor =
          std::clamp(seconds / each.predicted.*phase.seconds, kLeast, 1 / kLeast);
    }
  }
  for (const Phase& phase : kPhases)
    if (measured.*phase.seconds > 0)
      profile.others.*phase.factor =
          std::clamp(measured.*phase.seconds / predicted.*phase.seconds, kLeast, 1 / kLeast);
  return profile;
}

}  // namespace kerf::apps
