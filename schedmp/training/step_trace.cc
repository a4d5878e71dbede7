#include "schedmp/training/step_trace.h"

#include <algorithm>

namespace kerf::schedmp {

using runtime::Span;
using runtime::TraceRow;

namespace {

// Most waits take no time, and are dropped when that is known: they may be many more than will fit.
size_t most_bytes(int lane, const runtime::Trace& trace) {
  return trace.limit() * (lane == TraceRow::kWaits ? 4 : 1);
}

}  // namespace

// A timeline keeps what it marks with: steps that are traced one after the other share it.
void StepTrace::begin() {
  on_ = workplace_.trace.on();
  made_ = Made();
  list_.reset();
  if (!on_) return timeline_.reset();
  if (!timeline_) timeline_ = workplace_.device.make_timeline(workplace_.stream);
  timeline_->begin();
}

std::optional<size_t> StepTrace::make(std::string_view name, Span::Kind kind, int lane,
                                      uint64_t flow) {
  size_t& taken = made_.bytes.at(static_cast<size_t>(lane));
  const size_t bytes = runtime::Trace::wire_bytes(name);
  if (taken + bytes > most_bytes(lane, workplace_.trace)) {
    ++made_.lost;
    return std::nullopt;
  }
  taken += bytes;
  Marked& made = made_.spans.emplace_back();
  made.flow = flow;
  made.name = static_cast<uint32_t>(made_.names.size());
  made.name_size = static_cast<uint32_t>(name.size());
  made.kind = kind;
  made.lane = static_cast<uint8_t>(lane);
  made_.names.insert(made_.names.end(), name.begin(), name.end());
  return made_.spans.size() - 1;
}

std::optional<size_t> StepTrace::open(std::string_view name, Span::Kind kind, int lane,
                                      uint64_t flow) {
  const std::optional<size_t> at = make(name, kind, lane, flow);
  if (at) made_.spans[*at].begin = mark();
  return at;
}

void StepTrace::open_list(std::string_view name) {
  list_ = make(name, Span::Kind::kCompute, TraceRow::kActions, 0);
}

void StepTrace::close_list() {
  if (!list_) return;
  Marked& made = made_.spans[*list_];
  list_.reset();
  made.end = mark();
  if (made.begin == kNotYet) made.begin = made.end;
}

uint32_t StepTrace::mark() {
  timeline_->mark();
  return made_.marks++;
}

void StepTrace::end() {
  if (!on_) return;
  const std::span<const int64_t> moments = timeline_->moments();
  add({TraceRow::kActions}, moments);
  add({TraceRow::kMessages, TraceRow::kWaits}, moments);
  add({TraceRow::kOperators}, moments);
  workplace_.trace.add_lost(made_.lost);
  made_ = Made();
}

// A wait that took no time is none.
void StepTrace::add(std::initializer_list<int> lanes, std::span<const int64_t> moments) {
  constexpr int64_t kShortestWait = 1'000;
  for (const Marked& each : made_.spans) {
    if (std::find(lanes.begin(), lanes.end(), each.lane) == lanes.end()) continue;
    const int64_t length = moments[each.end] - moments[each.begin];
    if (each.kind == Span::Kind::kWait && length < kShortestWait) continue;
    workplace_.trace.add(span_of(each, moments));
  }
}

Span StepTrace::span_of(const Marked& each, std::span<const int64_t> moments) const {
  return {.name = {made_.names.data() + each.name, each.name_size},
          .kind = each.kind,
          .lane = each.lane,
          .begin_ns = moments[each.begin],
          .end_ns = moments[each.end],
          .flow = each.flow};
}

}  // namespace kerf::schedmp
