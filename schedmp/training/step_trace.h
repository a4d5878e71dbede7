// The spans of a step, by when the device did what they tell of, which may be long after it was
// enqueued.
//
// Costs nothing while the trace is off. Owned by the executor; its thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/worker.h"

namespace kerf::schedmp {

class StepTrace {
 public:
  // Throws as Device::make_timeline().
  explicit StepTrace(runtime::Workplace& workplace);

  // May wait for what is under way in the stream.
  void begin();
  // The stream was synchronized: adds the spans to the trace, in the order in which they begin.
  void end();

  // A span over what `act` enqueues; none where that throws. `name` is called only while the trace
  // is on.
  template <class Name, class Act>
  void cover(runtime::Span::Kind kind, int lane, const Name& name, const Act& act,
             uint64_t flow = 0) {
    if (!on_) return act();
    const size_t at = open(name(), kind, lane, flow);
    act();
    spans_[at].end = mark();
  }

 private:
  // A span, and the marks of the timeline where it begins and ends.
  struct Marked {
    runtime::Span span;
    size_t begin = 0;
    size_t end = 0;
  };
  size_t open(std::string name, runtime::Span::Kind kind, int lane, uint64_t flow);
  size_t mark();

  runtime::Workplace& workplace_;
  const std::unique_ptr<runtime::Timeline> timeline_;
  bool on_ = false;  // of this step
  size_t marks_ = 0;
  std::vector<Marked> spans_;
};

}  // namespace kerf::schedmp
