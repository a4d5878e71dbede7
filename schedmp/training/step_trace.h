// The spans of a step, by when the device did what they tell of, which may be long after it was
// enqueued.
//
// Costs nothing while the trace is off. Owned by the executor; its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  // The stream was synchronized: adds the spans to the trace: actions, then messages and waits,
  // then operators, so that of a step that is too large the finest are lost.
  void end();

  // A span over what a list of an action enqueues, from where it first works to its end: what it
  // waits for before that is not its time. `name` is called only while the trace is on, and nothing
  // is added where `act` throws, here and below.
  template <class Name, class Act>
  void cover_list(const Name& name, const Act& act) {
    if (!on_) return act();
    open_list(name());
    act();
    close_list();
  }
  // Of the list that is covered: what is enqueued next is work.
  void works() {
    if (on_ && list_ && spans_[*list_].begin == kNotYet) spans_[*list_].begin = mark();
  }

  // A span over what `act` enqueues, which is work where `kind` says that it computes.
  template <class Name, class Act>
  void cover(runtime::Span::Kind kind, int lane, const Name& name, const Act& act,
             uint64_t flow = 0) {
    if (!on_) return act();
    if (kind == runtime::Span::Kind::kCompute) works();
    const size_t at = open(name(), kind, lane, flow);
    act();
    spans_[at].end = mark();
  }

 private:
  static constexpr size_t kNotYet = SIZE_MAX;
  // A span, and the marks of the timeline where it begins and ends.
  struct Marked {
    runtime::Span span;
    size_t begin = 0;
    size_t end = 0;
  };
  size_t open(std::string name, runtime::Span::Kind kind, int lane, uint64_t flow);
  void open_list(std::string name);
  void close_list();
  size_t mark();
  void add(const std::vector<int32_t>& lanes);

  runtime::Workplace& workplace_;
  const std::unique_ptr<runtime::Timeline> timeline_;
  bool on_ = false;  // of this step
  size_t marks_ = 0;
  std::vector<Marked> spans_;
  std::optional<size_t> list_;  // of spans_, that is covered
};

}  // namespace kerf::schedmp
