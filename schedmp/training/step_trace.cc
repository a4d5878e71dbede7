#include "schedmp/training/step_trace.h"

#include <span>
#include <utility>

namespace kerf::schedmp {

StepTrace::StepTrace(runtime::Workplace& workplace)
    : workplace_(workplace), timeline_(workplace.device.make_timeline(workplace.stream)) {}

void StepTrace::begin() {
  on_ = workplace_.trace.on();
  marks_ = 0;
  spans_.clear();
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
    workplace_.trace.add(std::move(each.span));
  }
}

}  // namespace kerf::schedmp
