// Random models on the device that cannot be cheated (tests/support/async_device.h): nothing but
// streams and events orders what a step does, and the bits are the CPU's. A wait that orders
// anything is missed: without it there is a report.
#include <gmock/gmock.h>

#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "schedmp/schedules.h"
#include "tests/schedmp/scene.h"
#include "tests/support/seeds.h"

namespace kerf::schedmp {
namespace {

using partitioner::Model;
using partitioner::Plan;
using ::testing::IsEmpty;
using tests::AsyncWorld;
using tests::CrewStep;

Scene pipeline(int workers) {
  const Model model = partitioner::make_zoo_model("mlp", {{8, 8, 8, 8, 3}});
  std::vector<std::vector<int>> groups;
  for (int worker = 0; worker < workers; ++worker) groups.push_back({worker});
  const Schedule schedule = gpipe(groups, 4);
  partitioner::PlanRequest request;
  request.workers = workers;
  request.batch = 21;
  request.micro_batches = schedule.micro_batches;
  return {model, std::get<Plan>(make_plan(model, request, *in_flight_of(schedule))), schedule};
}

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

INSTANTIATE_TEST_SUITE_P(Seeds, AsyncRuns, tests::seeds(1, 12));

}  // namespace
}  // namespace kerf::schedmp
