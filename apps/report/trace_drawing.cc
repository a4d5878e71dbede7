#include "apps/report/trace_drawing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace kerf::apps {

using runtime::ArrowEnd;
using runtime::Counter;
using runtime::Span;
using runtime::TraceRow;
using runtime::WorkerTrace;
using schedmp::Moment;

namespace {

// Of flows of predicted messages: those that workers count begin at 1.
constexpr uint64_t kPredictedFlows = uint64_t{1} << 63;

int64_t at(int64_t begin_ns, double later) { return begin_ns + std::llround(later * 1e9); }

// Where a message leaves or reaches its action. It may have been there before the action began.
ArrowEnd end_of(const StepSpans::OfWorker& worker, const Span& message) {
  const bool arrives = message.kind == Span::Kind::kReceive;
  const int64_t at_ns = arrives ? message.end_ns : message.begin_ns;
  const Span* action = worker.owner(message);
  if (action == nullptr) return {message.flow, arrives, TraceRow::kMessages, at_ns};
  return {message.flow, arrives, TraceRow::kActions,
          std::max(action->begin_ns, std::min(at_ns, action->end_ns))};
}

bool is_message(const Span& span) {
  return span.flow != 0 && (span.kind == Span::Kind::kSend || span.kind == Span::Kind::kReceive);
}

}  // namespace

void draw_messages(std::vector<WorkerTrace>& traces) {
  std::map<uint64_t, int> ends;
  for (const WorkerTrace& trace : traces)
    for (const Span& span : trace.spans)
      if (is_message(span)) ++ends[span.flow];
  for (const StepSpans& step : spans_by_step(traces))
    for (size_t worker = 0; worker < traces.size(); ++worker)
      for (const Span* message : step.workers[worker].messages)
        if (is_message(*message) && ends[message->flow] == 2)
          traces[worker].arrows.push_back(end_of(step.workers[worker], *message));
}

void draw_predicted(std::vector<WorkerTrace>& traces, const PredictedStep& predicted) {
  const ShownTimeline shown = apps::shown(predicted.timeline);
  for (size_t worker = 0; worker < traces.size(); ++worker)
    for (const Moment& each : shown.rows[worker])
      traces[worker].spans.push_back({to_string(each.action), Span::Kind::kOther,
                                      TraceRow::kPredicted, at(predicted.begin_ns, each.begin),
                                      at(predicted.begin_ns, each.end), 0, predicted.step});
  uint64_t flow = kPredictedFlows;
  for (const schedmp::TimedMessage& each : predicted.timeline.messages) {
    const auto draw = [&](int of, size_t list, double seconds, bool arrives) {
      const auto worker = static_cast<size_t>(of);
      const Moment& action = shown.rows[worker][shown.place[worker][list]];
      const double within = std::max(action.begin, std::min(seconds, action.end));
      traces[worker].arrows.push_back(
          {flow, arrives, TraceRow::kPredicted, at(predicted.begin_ns, within)});
    };
    draw(each.from, each.sent_in, each.sent, false);
    draw(each.to, each.taken_in, each.taken, true);
    ++flow;
  }
}

void draw_memory(std::vector<WorkerTrace>& traces, const UsedMemory& memory,
                 const std::vector<std::vector<size_t>>& place, const std::string& name,
                 const std::vector<std::vector<Moment>>& rows, int64_t begin_ns) {
  for (size_t worker = 0; worker < traces.size(); ++worker) {
    const schedmp::RegionUse& use = memory.use[worker];
    std::vector<schedmp::RegionUse::OfList> by_action(rows[worker].size());
    for (size_t list = 0; list < use.lists.size(); ++list) {
      schedmp::RegionUse::OfList& of = by_action[place[worker][list]];
      of.taken += use.lists[list].taken;
      of.given += use.lists[list].given;
    }
    int64_t now = memory.peak_bytes[worker] - use.room + use.before;
    Counter counter{name, {{begin_ns, now}}};
    const auto sample = [&](double seconds, int64_t more) {
      if (more == 0) return;
      counter.samples.push_back({at(begin_ns, seconds), now += more});
    };
    for (size_t i = 0; i < rows[worker].size(); ++i) {
      sample(rows[worker][i].begin, by_action[i].taken);
      sample(rows[worker][i].end, -by_action[i].given);
    }
    traces[worker].counters.push_back(std::move(counter));
  }
}

}  // namespace kerf::apps
