// The spans of a step, on a device whose time is what the test says it is.
#include "schedmp/training/step_trace.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "runtime/format.h"
#include "runtime/store.h"
#include "runtime/wire.h"
#include "tests/support/allocation_meter.h"

namespace kerf::schedmp {
namespace {

using runtime::Span;
using runtime::Trace;
using runtime::TraceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Clock {
  int64_t now = 0;
  size_t timelines = 0;          // that there are
  std::vector<int64_t> moments;  // of the last of them
};

class ToldTimeline final : public runtime::Timeline {
 public:
  explicit ToldTimeline(Clock& clock) : clock_(clock) { ++clock_.timelines; }
  ~ToldTimeline() override { --clock_.timelines; }
  void begin() override { clock_.moments.clear(); }
  void mark() override { clock_.moments.push_back(clock_.now); }
  std::span<const int64_t> moments() override { return clock_.moments; }

 private:
  Clock& clock_;
};

class ToldDevice final : public runtime::Device {
 public:
  explicit ToldDevice(Clock& clock) : clock_(clock) {}
  runtime::DeviceKind kind() const override { return cpu_->kind(); }
  std::string name() const override { return cpu_->name(); }
  std::string description() const override { return cpu_->description(); }
  runtime::Buffer allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  runtime::PinnedMemory allocate_pinned(size_t bytes) override {
    return cpu_->allocate_pinned(bytes);
  }
  std::unique_ptr<runtime::Stream> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<runtime::Event> make_event() override { return cpu_->make_event(); }
  std::unique_ptr<runtime::Timeline> make_timeline(runtime::Stream&) override {
    return std::make_unique<ToldTimeline>(clock_);
  }
  runtime::MemoryStats memory() const override { return cpu_->memory(); }
  void reset_peak() override { cpu_->reset_peak(); }
  void cap_memory(size_t bytes) override { cpu_->cap_memory(bytes); }

 protected:
  void release(void*, size_t) noexcept override {}  // whose buffers are the CPU's

 private:
  Clock& clock_;
  const std::unique_ptr<runtime::Device> cpu_ = runtime::make_cpu_device();
};

// What a worker of a run has, with a trace of so many bytes.
class Traced {
 public:
  explicit Traced(size_t limit = Trace::kLimit) : trace(limit) { trace.enable(true); }

  void pass(int64_t ns) { clock.now += ns; }
  // A span of so long.
  void cover(Span::Kind kind, int lane, const std::string& name, int64_t ns, uint64_t flow = 0) {
    step.cover(
        kind, lane, [&] { return name; }, [&] { pass(ns); }, flow);
  }
  void compute(const std::string& name) {
    cover(Span::Kind::kCompute, TraceRow::kOperators, name, 5'000);
  }
  void send(const std::string& name) { cover(Span::Kind::kSend, TraceRow::kMessages, name, 2'000); }
  void wait(const std::string& name, int64_t ns) {
    cover(Span::Kind::kWait, TraceRow::kWaits, name, ns);
  }
  template <class Act>
  void list(const std::string& name, const Act& act) {
    step.cover_list([&] { return name; }, act);
  }

  Clock clock;
  Trace trace;

 private:
  std::shared_ptr<runtime::Device> device_ = std::make_shared<ToldDevice>(clock);
  std::unique_ptr<runtime::Stream> stream_ = device_->make_stream();
  std::unique_ptr<runtime::Endpoint> endpoint_ = runtime::make_endpoint(
      runtime::TransportKind::kInproc, "traced", device_, runtime::make_inproc_hub());
  runtime::Activity activity_;
  runtime::LocalStore store_;
  runtime::Workplace workplace_{0,          1,         1 /* thread */, *device_, *stream_,
                                *endpoint_, activity_, trace,          store_};

 public:
  StepTrace step{workplace_};
};

std::vector<std::string> names_of(const std::vector<Span>& spans) {
  std::vector<std::string> names;
  for (const Span& each : spans) names.push_back(each.name);
  return names;
}

TEST(StepTrace, TellsWhenEachWasDoneActionsFirst) {
  Traced on;
  on.step.begin();
  on.list("0F0", [&] {
    on.cover(Span::Kind::kWait, TraceRow::kWaits, "wait for x", 1'000, 7);
    on.cover(Span::Kind::kReceive, TraceRow::kMessages, "receive x", 10, 7);
    on.compute("conv");
  });
  on.step.end();
  const std::vector<Span> spans = on.trace.take();
  ASSERT_THAT(names_of(spans), ElementsAre("0F0", "wait for x", "receive x", "conv"));
  const auto times = [&](size_t i) { return std::pair(spans[i].begin_ns, spans[i].end_ns); };
  EXPECT_EQ(times(0), std::pair(int64_t{1'010}, int64_t{6'010})) << "from where it first works";
  EXPECT_EQ(times(1), std::pair(int64_t{0}, int64_t{1'000}));
  EXPECT_EQ(times(2), std::pair(int64_t{1'000}, int64_t{1'010}));
  EXPECT_EQ(times(3), std::pair(int64_t{1'010}, int64_t{6'010}));
  EXPECT_EQ(spans[1].kind, Span::Kind::kWait);
  EXPECT_EQ(spans[1].flow, 7u);
  EXPECT_EQ(spans[3].lane, TraceRow::kOperators);
}

TEST(StepTrace, HasNoWaitThatTookNoTimeNorCountsItAsLost) {
  Traced on;
  on.step.begin();
  on.wait("short", 999);
  on.wait("long", 1'000);
  on.step.end();
  EXPECT_THAT(names_of(on.trace.take()), ElementsAre("long"));
  EXPECT_EQ(on.trace.lost(), 0);
}

TEST(StepTrace, HasALongWaitBehindAsManyShortOnesAsWouldFillTheTrace) {
  Traced on(2'000);
  on.step.begin();
  for (int i = 0; i < 100; ++i) on.wait("short", 0);
  on.wait("long", 1'000);
  on.step.end();
  EXPECT_THAT(names_of(on.trace.take()), ElementsAre("long"));
  EXPECT_EQ(on.trace.lost(), 0);
}

TEST(StepTrace, MakesWaitsOfFourTimesTheTraceAtTheMost) {
  Traced on(10 * Trace::wire_bytes("short"));
  on.step.begin();
  for (int i = 0; i < 100; ++i) on.wait("short", 0);
  on.step.end();
  EXPECT_EQ(on.clock.moments.size(), 2u * 40);
  EXPECT_THAT(on.trace.take(), IsEmpty());
  EXPECT_EQ(on.trace.lost(), 60) << "nobody knows how long they took";
}

// Per action 2 messages, a wait of some length, one of none, and 20 operators.
class LargeStep : public ::testing::Test {
 protected:
  static constexpr int kActions = 8;
  // Names of one length.
  static std::string action(int a) { return kerf::format("{}F{}", a, a); }
  static std::string message(int a, int i) { return kerf::format("send {}.{}", a, i); }
  static std::string wait(int a) { return kerf::format("wait for {}", a); }
  static std::string op(int a, int i) { return kerf::format("conv{}.{:02}", a, i); }

  static void run(Traced& on) {
    on.step.begin();
    fill(on);
    on.step.end();
  }
  static void fill(Traced& on) {
    for (int a = 0; a < kActions; ++a)
      on.list(action(a), [&] {
        on.wait("none", 0);
        on.wait(wait(a), 3'000);
        for (int i = 0; i < 20; ++i) on.compute(op(a, i));
        for (int i = 0; i < 2; ++i) on.send(message(a, i));
      });
  }
  // As if all had been added.
  static std::vector<std::string> finest_last() {
    std::vector<std::string> names;
    for (int a = 0; a < kActions; ++a) names.push_back(action(a));
    for (int a = 0; a < kActions; ++a) {
      names.push_back(wait(a));
      for (int i = 0; i < 2; ++i) names.push_back(message(a, i));
    }
    for (int a = 0; a < kActions; ++a)
      for (int i = 0; i < 20; ++i) names.push_back(op(a, i));
    return names;
  }
};

TEST_F(LargeStep, LosesItsFinestSpansAndCountsThem) {
  const std::vector<std::string> all = finest_last();
  for (const size_t room : {all.size(), size_t{150}, size_t{60}, size_t{33}, size_t{32}}) {
    size_t limit = 0;
    for (size_t i = 0; i < room; ++i) limit += Trace::wire_bytes(all[i]);
    Traced on(limit);
    run(on);
    EXPECT_EQ(names_of(on.trace.take()),
              std::vector(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(room)));
    EXPECT_EQ(on.trace.lost(), static_cast<int64_t>(all.size() - room));
  }
}

TEST_F(LargeStep, LosesActionsOnlyWhereNothingElseIsLeft) {
  Traced on(3 * Trace::wire_bytes(action(0)));
  run(on);
  EXPECT_THAT(names_of(on.trace.take()), ElementsAre("0F0", "1F1", "2F2"));
}

TEST_F(LargeStep, TakesNoMarksForWhatItLoses) {
  Traced whole;
  run(whole);
  EXPECT_EQ(whole.clock.moments.size(), 2u * kActions * (1 + 2 + 20 + 2));
  const size_t operators = 10;
  Traced on(operators * Trace::wire_bytes(op(0, 0)));
  run(on);
  // Messages have names of the same length. All waits are made, of which half took no time.
  const size_t messages = operators;
  EXPECT_EQ(on.clock.moments.size(), 2 * (kActions + operators + messages + 2 * kActions));
  EXPECT_EQ(names_of(on.trace.take()).front(), "0F0");
}

// What a list that was lost does is none of that before it.
TEST(StepTrace, OfAListThatIsLostKeepsWhatIsWithin) {
  Traced on(2 * Trace::wire_bytes("0F0"));
  on.step.begin();
  for (const std::string name : {"0F0", "lost, as its name is so long", "1F1"})
    on.list(name, [&] {
      on.pass(100);
      on.step.works();
      on.pass(50);
    });
  on.step.works();
  on.step.end();
  const std::vector<Span> spans = on.trace.take();
  ASSERT_THAT(names_of(spans), ElementsAre("0F0", "1F1"));
  EXPECT_EQ(spans[0].begin_ns, 100);
  EXPECT_EQ(spans[0].end_ns, 150);
  EXPECT_EQ(spans[1].begin_ns, 400);
  EXPECT_EQ(spans[1].end_ns, 450);
  EXPECT_EQ(on.trace.lost(), 1);
}

// What a step's spans took is given back with it: another takes as much again.
TEST_F(LargeStep, KeepsNoMemory) {
  Traced on;
  on.clock.moments.reserve(1'000);
  const auto allocated = [&] {
    on.step.begin();
    const size_t before = tests::allocated_bytes();
    fill(on);
    const size_t bytes = tests::allocated_bytes() - before;
    on.step.end();
    return bytes;
  };
  const size_t once = allocated();
  EXPECT_GT(once, finest_last().size() * 32);
  EXPECT_EQ(allocated(), once);
}

TEST_F(LargeStep, HasNoTimelineOnceAStepIsNotTraced) {
  Traced on;
  EXPECT_EQ(on.clock.timelines, 0u);
  run(on);
  run(on);
  EXPECT_EQ(on.clock.timelines, 1u);
  on.trace.take();
  on.trace.enable(false);
  run(on);
  EXPECT_EQ(on.clock.timelines, 0u);
  EXPECT_THAT(on.trace.take(), IsEmpty());
}

// Tens of thousands of operators, in no more than about what the trace takes of them on the wire.
TEST(StepTrace, OfADeepNetworkTakesLittleMoreThanItsTrace) {
  Traced on;
  on.clock.moments.reserve(size_t{1} << 17);
  const std::string name = "/layer4/layer4.1/conv2/Conv weight gradient";
  const size_t before = tests::allocated_bytes();
  on.step.begin();
  for (int i = 0; i < 40'000; ++i)
    on.step.cover(
        Span::Kind::kCompute, TraceRow::kOperators, [&] { return std::string_view(name); }, [] {});
  const size_t allocated = tests::allocated_bytes() - before;
  on.step.end();
  const size_t kept = on.trace.take().size();
  EXPECT_EQ(kept, Trace::kLimit / Trace::wire_bytes(name));
  EXPECT_EQ(on.trace.lost(), 40'000 - static_cast<int64_t>(kept));
  // Twice, as vectors grow by doubling, and twice that, as what they had before counts as well.
  EXPECT_LT(allocated, 4 * Trace::kLimit);
}

}  // namespace
}  // namespace kerf::schedmp
