// Random models on the device that cannot be cheated (tests/support/async_device.h): nothing but
// streams and events orders what a step does, and the bits are the CPU's. A wait that orders
// anything is missed: without it there is a report.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/schedmp/scene.h"
#include "tests/support/seeds.h"

namespace kerf::schedmp {
namespace {

using ::testing::IsEmpty;
using tests::AsyncWorld;
using tests::CrewStep;

class AsyncRuns : public ::testing::TestWithParam<int> {};

TEST_P(AsyncRuns, HaveTheBitsOfTheCpuAndOrderAllThatTheyDo) {
  const Scene scene = random_scene(GetParam());
  const CrewStep cpu = scene.run({});
  const auto world = std::make_shared<AsyncWorld>(static_cast<uint64_t>(GetParam()));
  const CrewStep late = scene.run({.world = world});
  EXPECT_THAT(world->reports(), IsEmpty());
  EXPECT_EQ(late.loss, cpu.loss);
  EXPECT_EQ(late.traffic, cpu.traffic);
  EXPECT_EQ(late.peak_bytes, cpu.peak_bytes);
  ASSERT_EQ(late.weights.size(), cpu.weights.size());
  for (size_t i = 0; i < cpu.weights.size(); ++i)
    EXPECT_TRUE(late.weights[i].bytes == cpu.weights[i].bytes) << cpu.weights[i].name;
}

// Each wait of a step is dropped in turn. For the last one of a worker that reports nothing there
// is no memory: it says that the step is over.
// How many there are depends on which slots are free already: each run says how many it had.
TEST(AsyncRun, MissesEveryWaitOfAStep) {
  for (const int workers : {1, 2, 3}) {
    const Scene scene = pipeline(workers);
    for (int worker = 0; worker < workers; ++worker) {
      size_t needed = 0;
      for (size_t wait = 0, waits = 1; wait < waits; ++wait) {
        const auto world = std::make_shared<AsyncWorld>(1);
        const CrewStep less =
            scene.run({.world = world, .dropped = tests::DroppedWait{worker, wait}});
        waits = less.waits[static_cast<size_t>(worker)];
        const bool is_end = wait + 1 >= waits;
        const bool needless = less.dropped_needless || (is_end && less.reporter != worker);
        EXPECT_EQ(world->reports().empty(), needless) << wait << " of worker " << worker;
        needed += world->reports().empty() ? 0 : 1;
      }
      EXPECT_GE(needed, static_cast<size_t>(workers > 1 ? 4 : 1)) << "one a micro-batch";
    }
  }
}

// Rows are read in the stream: what took that long is the device's work, not its enqueueing.
TEST(AsyncRun, IsTracedByWhenTheDeviceDidIt) {
  static constexpr int64_t kRead = 5'000'000;
  const auto world = std::make_shared<AsyncWorld>(1);
  const CrewStep step =
      pipeline(2).run({.world = world, .trace = true, .reading = [](const auto&) {
                         std::this_thread::sleep_for(std::chrono::nanoseconds(kRead));
                       }});
  const auto spans_of = [&](size_t worker, int lane) {
    std::vector<runtime::Span> found;
    for (const runtime::Span& each : step.spans[worker])
      if (each.lane == lane && each.kind == runtime::Span::Kind::kCompute) found.push_back(each);
    return found;
  };
  const auto is_forward = [](const runtime::Span& each) {
    return each.name.find('F') != std::string::npos;
  };
  for (size_t worker = 0; worker < 2; ++worker) {
    const auto actions = spans_of(worker, 0);
    EXPECT_EQ(std::ranges::count_if(actions, is_forward), 4);
    for (size_t i = 0; i < actions.size(); ++i) {
      EXPECT_GE(actions[i].begin_ns, i == 0 ? 0 : actions[i - 1].end_ns) << actions[i].name;
      // Inputs go to the first stage, labels to the last.
      if (is_forward(actions[i])) {
        EXPECT_GE(actions[i].end_ns - actions[i].begin_ns, kRead) << actions[i].name;
      }
    }
    EXPECT_FALSE(spans_of(worker, 1).empty());
    for (const runtime::Span& each : spans_of(worker, 1))
      EXPECT_TRUE(std::ranges::any_of(actions,
                                      [&](const runtime::Span& action) {
                                        return action.begin_ns <= each.begin_ns &&
                                               each.end_ns <= action.end_ns;
                                      }))
          << each.name << " is of no action";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AsyncRuns, tests::seeds(1, 12));

}  // namespace
}  // namespace kerf::schedmp
