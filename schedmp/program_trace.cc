#include "schedmp/program_trace.h"

#include <utility>

#include "runtime/format.h"
#include "runtime/time.h"

namespace kerf::schedmp {

ProgramTrace::Timer::Timer(ProgramTrace* trace, const char* what, int64_t round) : trace_(trace) {
  if (trace == nullptr) return;
  span_ = {.name = kerf::format("{} {}", what, round),
           .kind = runtime::Span::Kind::kCompute,
           .lane = runtime::TraceRow::kActions,
           .begin_ns = runtime::now_ns(),
           .step = round};
}

ProgramTrace::Timer::~Timer() {
  if (trace_ == nullptr || !trace_->has_room()) return;
  span_.end_ns = runtime::now_ns();
  trace_->own_.push_back(std::move(span_));
}

bool ProgramTrace::has_room() {
  if (kept_ == kMostSpans) ++lost_;
  return kept_ < kMostSpans && ++kept_ > 0;
}

void ProgramTrace::add(int worker, std::vector<runtime::Span> spans) {
  const auto place = static_cast<size_t>(worker);
  if (workers_.size() <= place) workers_.resize(place + 1);
  for (runtime::Span& span : spans)
    if (has_room()) workers_[place].push_back(std::move(span));
}

std::vector<runtime::WorkerTrace> ProgramTrace::take(const std::vector<runtime::WorkerInfo>& crew) {
  std::vector<runtime::WorkerTrace> traces;
  traces.push_back({.worker = static_cast<int32_t>(crew.size()),
                    .name = "scheduler",
                    .spans = std::exchange(own_, {})});
  workers_.resize(crew.size());
  for (const runtime::WorkerInfo& each : crew) {
    std::vector<runtime::Span>& spans = workers_[static_cast<size_t>(each.worker)];
    runtime::shift(spans, each.clock_offset_ns);
    traces.push_back(
        {.worker = each.worker,
         .name = kerf::format("worker {} (pid {}, {})", each.worker, each.pid, each.device),
         .spans = std::exchange(spans, {})});
  }
  return traces;
}

}  // namespace kerf::schedmp
