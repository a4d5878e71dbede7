// The spans of a step, by when the device did what they tell of, which may be long after it was
// enqueued.
//
// Costs nothing while the trace is off, and holds nothing once a step was not traced: the next that
// is has another timeline. Owned by the executor; its thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/worker.h"

namespace kerf::schedmp {

class StepTrace {
 public:
  explicit StepTrace(runtime::Workplace& workplace) : workplace_(workplace) {}

  // May wait for what is under way in the stream. Throws as Device::make_timeline().
  void begin();
  // The stream was synchronized: adds the spans to the trace: actions, then messages and waits,
  // then operators, so that of a step that is too large the finest are lost. Of a row that alone is
  // more than the trace takes (of waits, four times that) the rest is not even made, and lost too.
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
    if (on_ && list_ && made_.spans[*list_].begin == kNotYet) made_.spans[*list_].begin = mark();
  }

  // A span over what `act` enqueues, which is work where `kind` says that it computes.
  template <class Name, class Act>
  void cover(runtime::Span::Kind kind, int lane, const Name& name, const Act& act,
             uint64_t flow = 0) {
    if (!on_) return act();
    if (kind == runtime::Span::Kind::kCompute) works();
    const std::optional<size_t> at = open(name(), kind, lane, flow);
    act();
    if (at) made_.spans[*at].end = mark();
  }

 private:
  static constexpr uint32_t kNotYet = UINT32_MAX;
  static constexpr size_t kRows = runtime::TraceRow::kWaits + 1;
  // A span, of which there are tens of thousands in a step of a deep network: where its name lies,
  // and the marks of the timeline where it begins and ends.
  struct Marked {
    uint64_t flow = 0;
    uint32_t name = 0;
    uint32_t name_size = 0;
    uint32_t begin = kNotYet;
    uint32_t end = kNotYet;
    runtime::Span::Kind kind = runtime::Span::Kind::kOther;
    uint8_t lane = 0;
  };
  static_assert(sizeof(Marked) <= 32);
  // Of this step. Vectors, as assigning another gives their memory back, which a string's does not.
  struct Made {
    uint32_t marks = 0;
    int64_t lost = 0;
    std::vector<Marked> spans;
    std::vector<char> names;
    std::array<size_t, kRows> bytes = {};  // of each row on the wire
  };

  // Neither makes a span where its row is full.
  std::optional<size_t> make(std::string_view name, runtime::Span::Kind kind, int lane,
                             uint64_t flow);
  std::optional<size_t> open(std::string_view name, runtime::Span::Kind kind, int lane,
                             uint64_t flow);
  void open_list(std::string_view name);
  void close_list();
  uint32_t mark();
  void add(std::initializer_list<int> lanes, std::span<const int64_t> moments);
  runtime::Span span_of(const Marked& each, std::span<const int64_t> moments) const;

  runtime::Workplace& workplace_;
  std::unique_ptr<runtime::Timeline> timeline_;  // null: the last step was not traced
  bool on_ = false;                              // of this step
  Made made_;
  std::optional<size_t> list_;  // of the spans, that is covered; none where its row is full
};

}  // namespace kerf::schedmp
