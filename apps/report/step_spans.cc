#include "apps/report/step_spans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "schedmp/interpreter.h"

namespace kerf::apps {

using runtime::Span;
using runtime::TraceRow;
using runtime::WorkerTrace;
using schedmp::Action;
using schedmp::Moment;

namespace {

bool has_actions(const StepSpans& step, const std::vector<std::vector<Action>>& shown) {
  for (size_t worker = 0; worker < shown.size(); ++worker) {
    const auto& spans = step.workers[worker].actions;
    if (!std::equal(spans.begin(), spans.end(), shown[worker].begin(), shown[worker].end(),
                    [](const Span* span, const Action& action) {
                      return span->name == to_string(action) && span->begin_ns <= span->end_ns;
                    }))
      return false;
  }
  return std::any_of(shown.begin(), shown.end(), [](const auto& row) { return !row.empty(); });
}

}  // namespace

std::vector<std::vector<Action>> shown_actions(const schedmp::Steps& steps, int workers) {
  std::vector<std::vector<Action>> shown;
  for (int worker = 0; worker < workers; ++worker) {
    std::vector<Action>& of_worker = shown.emplace_back();
    for (const schedmp::ListRun& run : steps.runs(worker, steps.ramps(1, 3)))
      if (of_worker.empty() || of_worker.back() != run.action) of_worker.push_back(run.action);
  }
  return shown;
}

void join_lists(std::vector<WorkerTrace>& traces) {
  for (WorkerTrace& trace : traces) {
    std::vector<Span> joined;
    size_t last = SIZE_MAX;  // action
    for (Span& span : trace.spans) {
      if (span.lane == TraceRow::kActions) {
        if (last != SIZE_MAX && joined[last].name == span.name && joined[last].step == span.step) {
          joined[last].end_ns = span.end_ns;
          continue;
        }
        last = joined.size();
      }
      joined.push_back(std::move(span));
    }
    trace.spans = std::move(joined);
  }
}

const Span* StepSpans::OfWorker::owner(const Span& span) const {
  const auto found =
      std::lower_bound(actions.begin(), actions.end(), span.end_ns,
                       [](const Span* action, int64_t end_ns) { return action->end_ns < end_ns; });
  return found == actions.end() ? nullptr : *found;
}

double StepSpans::OfWorker::waited_seconds(const Span& action) const {
  int64_t ns = 0;
  auto wait =
      std::upper_bound(waits.begin(), waits.end(), action.begin_ns,
                       [](int64_t begin_ns, const Span* w) { return begin_ns < w->end_ns; });
  for (; wait != waits.end() && (*wait)->begin_ns < action.end_ns; ++wait)
    ns += std::max<int64_t>(
        0, std::min((*wait)->end_ns, action.end_ns) - std::max((*wait)->begin_ns, action.begin_ns));
  return static_cast<double>(ns) * 1e-9;
}

int64_t StepSpans::begin_ns() const {
  int64_t begin = INT64_MAX;
  for (const OfWorker& worker : workers)
    if (!worker.actions.empty()) begin = std::min(begin, worker.actions.front()->begin_ns);
  return begin;
}

std::vector<StepSpans> spans_by_step(std::span<const WorkerTrace> traces) {
  std::map<int64_t, StepSpans> steps;
  for (size_t worker = 0; worker < traces.size(); ++worker)
    for (const Span& span : traces[worker].spans) {
      if (span.step < 0) continue;
      StepSpans& step = steps[span.step];
      step.step = span.step;
      step.workers.resize(traces.size());
      StepSpans::OfWorker& of = step.workers[worker];
      if (span.lane == TraceRow::kActions) of.actions.push_back(&span);
      if (span.lane == TraceRow::kOperators) of.operators.push_back(&span);
      if (span.lane == TraceRow::kMessages) of.messages.push_back(&span);
      if (span.lane == TraceRow::kWaits) of.waits.push_back(&span);
    }
  std::vector<StepSpans> sorted;
  for (auto& [number, step] : steps) sorted.push_back(std::move(step));
  return sorted;
}

std::vector<StepSpans> whole_steps(std::span<const WorkerTrace> traces,
                                   const std::vector<std::vector<Action>>& shown,
                                   const std::set<int64_t>& full) {
  std::vector<StepSpans> whole;
  for (StepSpans& step : spans_by_step(traces))
    if (full.contains(step.step) && step.workers.size() == shown.size() && has_actions(step, shown))
      whole.push_back(std::move(step));
  if (whole.size() > 1) whole.erase(whole.begin());
  return whole;
}

std::vector<std::vector<Moment>> measured_rows(const StepSpans& step,
                                               const std::vector<std::vector<Action>>& shown) {
  const int64_t begin_ns = step.begin_ns();
  const auto since = [&](int64_t ns) { return static_cast<double>(ns - begin_ns) * 1e-9; };
  std::vector<std::vector<Moment>> rows;
  for (size_t worker = 0; worker < shown.size(); ++worker) {
    const StepSpans::OfWorker& of = step.workers[worker];
    std::vector<Moment>& row = rows.emplace_back();
    for (size_t i = 0; i < shown[worker].size(); ++i) {
      const Span& span = *of.actions[i];
      const double busy = since(span.end_ns) - since(span.begin_ns) - of.waited_seconds(span);
      row.push_back(
          {shown[worker][i], since(span.begin_ns), since(span.end_ns), std::max(busy, 0.0)});
    }
  }
  return rows;
}

double seconds_of(const std::vector<std::vector<Moment>>& rows, bool goes_on) {
  double most = 0;
  for (const auto& row : rows)
    for (const Moment& each : row)
      if (each.action.micro_batch >= 0)
        most = std::max(most, each.end - (goes_on ? row.front().begin : 0));
  return most;
}

size_t median_step(const std::vector<StepSpans>& steps,
                   const std::vector<std::vector<Action>>& shown, bool goes_on) {
  std::vector<double> seconds;
  for (const StepSpans& step : steps)
    seconds.push_back(seconds_of(measured_rows(step, shown), goes_on));
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>((order.size() - 1) / 2);
  std::nth_element(order.begin(), middle, order.end(),
                   [&](size_t a, size_t b) { return seconds[a] < seconds[b]; });
  return *middle;
}

}  // namespace kerf::apps
