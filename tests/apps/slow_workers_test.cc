// Which workers a run names as slow, by a clock of the test's own.
#include "apps/slow_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kerf::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMillisecond = 1'000'000;

class NamedSlow : public testing::Test {
 protected:
  // So many steps of a tenth of a second, 21 of which are a window and what begins the first.
  std::vector<std::string> steps(int count, const std::vector<int64_t>& ms, int64_t rows = 8) {
    std::vector<int64_t> ns;
    for (const int64_t each : ms) ns.push_back(each * kMillisecond);
    std::vector<std::string> notes;
    for (int i = 0; i < count; ++i) {
      schedmp::StepRecord step;
      step.step = step_++;
      step.rows = rows;
      for (std::string& note : slow_.computed(step, ns, now_ns_ += 100 * kMillisecond))
        notes.push_back(std::move(note));
    }
    return notes;
  }

  int64_t step_ = 0;
  int64_t now_ns_ = 0;
  SlowWorkers slow_{2, 8, 2};
};

TEST_F(NamedSlow, NobodyOfAnUndisturbedRun) {
  EXPECT_THAT(steps(2, {10, 90}), IsEmpty()) << "traced, and not looked at";
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(steps(20, {20, 40}), IsEmpty());
    EXPECT_THAT(steps(20, {22, 40}), IsEmpty());
  }
  EXPECT_THAT(steps(100, {20, 200}, 3), IsEmpty()) << "steps of fewer rows";
  EXPECT_THAT(slow_.seen(), IsEmpty());
}

TEST_F(NamedSlow, OnceForEachChange) {
  steps(23, {20, 40});
  EXPECT_THAT(steps(200, {20, 76}),
              ElementsAre("worker 1 takes 1.9 times as long as it did, beside the others; "
                          "--rebalance would plan anew"));
  EXPECT_THAT(steps(200, {20, 48}), ElementsAre(HasSubstr("as fast as it was")))
      << "a fifth is not told";
  EXPECT_THAT(steps(200, {20, 160}), ElementsAre(HasSubstr("worker 1 takes 4.0 times")));
  EXPECT_THAT(steps(200, {20, 80}), ElementsAre(HasSubstr("worker 1 takes 2.0 times")));
  ASSERT_EQ(slow_.seen().size(), 3u);
  EXPECT_EQ(slow_.seen()[0].worker, 1);
  EXPECT_EQ(slow_.seen()[0].from_step, 62);
  EXPECT_EQ(slow_.seen()[0].to_step, 262);
  EXPECT_DOUBLE_EQ(slow_.seen()[0].times, 1.9);
  EXPECT_EQ(slow_.seen()[1].to_step, slow_.seen()[2].from_step);
  EXPECT_EQ(slow_.seen()[2].to_step, std::nullopt);
}

TEST_F(NamedSlow, NobodyWhereOneIsOnAGpu) {
  std::vector<runtime::WorkerInfo> workers(2);
  workers[0].device = "cpu";
  workers[1].device = "cuda:0";
  slow_.are_here(workers);
  steps(23, {20, 40});
  EXPECT_THAT(steps(200, {20, 76}), IsEmpty());
}

}  // namespace
}  // namespace kerf::apps
