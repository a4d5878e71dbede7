// Traces: what happened when, for Perfetto and chrome://tracing.
//
// Each worker records spans on its own clock; shift() moves them onto the scheduler's clock (offset
// from the report with the shortest round trip) before they are written together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

// Rows within a worker.
struct TraceRow {
  static constexpr int32_t kActions = 0;
  static constexpr int32_t kOperators = 1;
  static constexpr int32_t kMessages = 2;
  static constexpr int32_t kWaits = 3;
  static constexpr int32_t kPredicted = 4;  // actions, beside those that were measured
  // Of the scheduler:
  static constexpr int32_t kRestarts = 5;
  static constexpr int32_t kSaves = 6;  // commits and checkpoints
};

struct Span {
  enum class Kind : uint8_t { kCompute, kWait, kSend, kReceive, kOther };

  std::string name;  // "1F3", "send fc1.output"
  Kind kind = Kind::kOther;
  int32_t lane = 0;      // row within a worker: TraceRow
  int64_t begin_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;
  uint64_t flow = 0;  // equal at a send, the wait for it and its receive; 0: none
  int64_t step = -1;  // that it is of; -1: of none

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, kind, lane, begin_ns, end_ns, flow, step);
  }
};

// Owned by one thread. Records nothing while off; spans that would take more than `limit` bytes on
// the wire between two calls of take() are counted, not kept.
class Trace {
 public:
  // Leaves room for the rest of the result that carries them (kMaxControlMessage).
  static constexpr size_t kLimit = size_t{768} << 10;

  explicit Trace(size_t limit = kLimit) : limit_(limit) {}
  void enable(bool on) { on_ = on; }
  bool on() const { return on_; }
  size_t limit() const { return limit_; }
  // On the wire, of what was not taken yet.
  size_t bytes() const { return bytes_; }
  // What a span of that name takes of the limit.
  static size_t wire_bytes(std::string_view name);
  void add(Span span);
  // Counts spans that were not even made, as there was no room for them.
  void add_lost(int64_t spans);
  std::vector<Span> take();
  int64_t lost() const { return lost_; }  // since the beginning

 private:
  bool on_ = false;
  size_t limit_;
  size_t bytes_ = 0;  // of spans_ on the wire
  int64_t lost_ = 0;
  std::vector<Span> spans_;
};

// Where an arrow leaves a row, or where it arrives: within a span there, to which viewers attach
// it. The two ends of an arrow have one flow.
struct ArrowEnd {
  uint64_t flow = 0;
  bool arrives = false;
  int32_t lane = 0;
  int64_t at_ns = 0;
};

// What something amounts to, from each sample to the next.
struct Counter {
  struct Sample {
    int64_t at_ns = 0;
    int64_t bytes = 0;
  };
  std::string name;
  std::vector<Sample> samples;
};

struct WorkerTrace {
  int32_t worker = 0;
  std::string name;  // "worker 1 (pid 4711, cpu)"
  std::vector<Span> spans;
  std::vector<ArrowEnd> arrows = {};
  std::vector<Counter> counters = {};
};

void shift(std::vector<Span>& spans, int64_t offset_ns);
// Chrome trace-event JSON: pid = worker, tid = lane. Atomic.
void write_chrome_trace(const std::filesystem::path& path, const std::vector<WorkerTrace>& workers);

}  // namespace kerf::runtime
