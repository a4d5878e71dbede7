#include "schedmp/training/step_trace.h"

#include <algorithm>
#include <span>
#include <utility>

namespace kerf::schedmp {

StepTrace::StepTrace(runtime::Workplace& workplace)
    : workplace_(workplace), timeline_(workplace.device.make_timeline(workplace.stream)) {}

void StepTrace::begin() {
  on_ = workplace_.trace.on();
  marks_ = 0;
  spans_.clear();
  list_.reset();
  if (on_) timeline_->begin();
}

size_t StepTrace::open(std::string name, runtime::Span::Kind kind, int lane, uint64_t flow) {
  Marked& made = spans_.emplace_back();
  made.span.name = std::move(name);
  made.span.kind = kind;
  made.span.lane = lane;
  made.span.flow = flow;
  made.begin = mark();
  return spans_.size() - 1;
}

void StepTrace::open_list(std::string name) {
  Marked& made = spans_.emplace_back();
  made.span.name = std::move(name);
  made.span.kind = runtime::Span::Kind::kCompute;
  made.span.lane = runtime::TraceRow::kActions;
  made.begin = kNotYet;
  list_ = spans_.size() - 1;
}

void StepTrace::close_list() {
  Marked& made = spans_[*list_];
  list_.reset();
  made.end = mark();
  if (made.begin == kNotYet) made.begin = made.end;
}

size_t StepTrace::mark() {
  timeline_->mark();
  return marks_++;
}

void StepTrace::end() {
  if (!on_) return;
  const std::span<const int64_t> moments = timeline_->moments();
  for (Marked& each : spans_) {
    each.span.begin_ns = moments[each.begin];
    each.span.end_ns = moments[each.end];
  }
  add({runtime::TraceRow::kActions});
  add({runtime::TraceRow::kMessages, runtime::TraceRow::kWaits});
  add({runtime::TraceRow::kOperators});
}

// A wait that took no time is none.
void StepTrace::add(const std::vector<int32_t>& lanes) {
  constexpr int64_t kShortestWait = 1'000;
  for (Marked& each : spans_) {
    const runtime::Span& span = each.span;
    if (std::find(lanes.begin(), lanes.end(), span.lane) == lanes.end()) continue;
    if (span.kind == runtime::Span::Kind::kWait && span.end_ns - span.begin_ns < kShortestWait)
      continue;
    workplace_.trace.add(std::move(each.span));
  }
}

}  // namespace kerf::schedmp
