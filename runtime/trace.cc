#include "runtime/trace.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "runtime/file.h"
#include "runtime/format.h"
#include "runtime/json.h"

namespace kerf::runtime {

namespace {

constexpr size_t kWriteBytes = size_t{1} << 16;
constexpr size_t kSpanBytes = 41;  // of a span without a name on the wire

std::string_view category(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::kCompute:
      return "compute";
    case Span::Kind::kWait:
      return "wait";
    case Span::Kind::kSend:
      return "send";
    case Span::Kind::kReceive:
      return "receive";
    case Span::Kind::kOther:
      return "other";
  }
  return "other";
}

std::string row_name(int32_t lane) {
  switch (lane) {
    case TraceRow::kActions:
      return "actions";
    case TraceRow::kOperators:
      return "operators";
    case TraceRow::kMessages:
      return "messages";
    case TraceRow::kWaits:
      return "waits";
    case TraceRow::kPredicted:
      return "actions, predicted";
    case TraceRow::kRestarts:
      return "restarts";
    case TraceRow::kSaves:
      return "commits and checkpoints";
    default:
      return format("row {}", lane);
  }
}

// From above: what was predicted stands over what was measured.
int64_t place_of(int32_t lane) { return lane == TraceRow::kPredicted ? -1 : int64_t{lane}; }

// Quoted; names may come from other processes, so bytes that are not UTF-8 are replaced.
std::string quoted(const std::string& text) { return json_text(text); }

// Spans may come from other processes: sums and differences wrap instead of being undefined.
int64_t plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// Chrome's unit is the microsecond; three digits keep the nanoseconds.
std::string microseconds(int64_t ns) {
  const uint64_t size = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

// Writes events as they come, a piece of the file at a time.
class Writer {
 public:
  Writer(const std::filesystem::path& path, int64_t origin_ns)
      : file_(path), origin_ns_(origin_ns) {
    piece_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  }

  void worker(const WorkerTrace& trace) {
    event(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})",
          trace.worker, quoted(trace.name));
    event(
        R"({{"ph":"M","name":"process_sort_index","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})",
        trace.worker);
    std::set<int32_t> lanes;
    for (const Span& span : trace.spans) lanes.insert(span.lane);
    for (const int32_t lane : lanes) {
      event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
            trace.worker, lane, quoted(row_name(lane)));
      event(
          R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
          trace.worker, lane, place_of(lane));
    }
  }

  void span(int32_t worker, const Span& span) {
    const int64_t length = std::max<int64_t>(0, minus(span.end_ns, span.begin_ns));
    const std::string step =
        span.step < 0 ? std::string() : format(R"(,"args":{{"step":{}}})", span.step);
    event(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{}{}}})",
          quoted(span.name), category(span.kind), worker, span.lane, at(span.begin_ns),
          microseconds(length), step);
  }

  void arrow(int32_t worker, const ArrowEnd& end) {
    event(R"({{"ph":"{}"{},"name":"message","cat":"flow","id":"{:x}","pid":{},"tid":{},"ts":{}}})",
          end.arrives ? 'f' : 's', end.arrives ? R"(,"bp":"e")" : "", end.flow, worker, end.lane,
          at(end.at_ns));
  }

  void counter(int32_t worker, const Counter& counter) {
    for (const Counter::Sample& sample : counter.samples)
      event(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"bytes":{}}}}})",
            quoted(counter.name), worker, at(sample.at_ns), sample.bytes);
  }

  void finish() {
    piece_ += "\n]}\n";
    file_.write(piece_);
    file_.commit();
  }

 private:
  std::string at(int64_t ns) const { return microseconds(minus(ns, origin_ns_)); }

  template <class... Args>
  void event(fmt::format_string<Args...> text, Args&&... args) {
    piece_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(piece_), text, std::forward<Args>(args)...);
    if (piece_.size() < kWriteBytes) return;
    file_.write(piece_);
    piece_.clear();
  }

  AtomicFile file_;
  int64_t origin_ns_;
  std::string piece_;
  bool first_ = true;
};

// The first thing that happened, so that the picture begins at 0 and digits are not wasted.
int64_t origin_of(const std::vector<WorkerTrace>& workers) {
  int64_t origin = 0;
  bool any = false;
  const auto happened = [&](int64_t ns) {
    origin = any ? std::min(origin, ns) : ns;
    any = true;
  };
  for (const WorkerTrace& worker : workers) {
    for (const Span& span : worker.spans) happened(span.begin_ns);
    for (const Counter& counter : worker.counters)
      for (const Counter::Sample& sample : counter.samples) happened(sample.at_ns);
  }
  return origin;
}

}  // namespace

size_t Trace::wire_bytes(std::string_view name) { return kSpanBytes + name.size(); }

void Trace::add(Span span) {
  if (!on_) return;
  const size_t bytes = wire_bytes(span.name);
  if (bytes_ + bytes > limit_) {
    ++lost_;
    return;
  }
  bytes_ += bytes;
  spans_.push_back(std::move(span));
}

void Trace::add_lost(int64_t spans) {
  if (on_) lost_ += spans;
}

std::vector<Span> Trace::take() {
  bytes_ = 0;
  return std::exchange(spans_, {});
}

void shift(std::vector<Span>& spans, int64_t offset_ns) {
  for (Span& span : spans) {
    span.begin_ns = plus(span.begin_ns, offset_ns);
    span.end_ns = plus(span.end_ns, offset_ns);
  }
}

void write_chrome_trace(const std::filesystem::path& path,
                        const std::vector<WorkerTrace>& workers) {
  Writer writer(path, origin_of(workers));
  for (const WorkerTrace& worker : workers) {
    writer.worker(worker);
    for (const Span& span : worker.spans) writer.span(worker.worker, span);
    for (const ArrowEnd& end : worker.arrows) writer.arrow(worker.worker, end);
    for (const Counter& counter : worker.counters) writer.counter(worker.worker, counter);
  }
  writer.finish();
}

}  // namespace kerf::runtime
