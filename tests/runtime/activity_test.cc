#include "runtime/activity.h"

#include <gtest/gtest.h>

#include <thread>

namespace kerf::runtime {
namespace {

using std::chrono::milliseconds;

TEST(Activity, BeginsIdle) {
  const ActivityReport report = Activity().report();
  EXPECT_EQ(report.doing, "");
  EXPECT_EQ(report.awaits, "");
  EXPECT_EQ(report.awaited, -1);
  EXPECT_EQ(report.progress, 0);
}

TEST(Activity, TellsWhatIsDoneAndWhatIsAwaitedFromWhom) {
  Activity activity;
  activity.doing("step 12: 1F3");
  activity.awaits("fc1.output of micro-batch 3", 0);
  ActivityReport report = activity.report();
  EXPECT_EQ(report.doing, "step 12: 1F3");
  EXPECT_EQ(report.awaits, "fc1.output of micro-batch 3");
  EXPECT_EQ(report.awaited, 0);

  activity.awaits_nothing();
  report = activity.report();
  EXPECT_EQ(report.doing, "step 12: 1F3");
  EXPECT_EQ(report.awaits, "");
  EXPECT_EQ(report.awaited, -1);
}

TEST(Activity, ThatIsNewAwaitsNothingYet) {
  Activity activity;
  activity.awaits("a tensor", 2);
  activity.doing("step 13: 1F0");
  EXPECT_EQ(activity.report().awaited, -1);
}

TEST(Activity, CountsTimeFromTheLastChange) {
  Activity activity;
  activity.doing("a");
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_GE(activity.report().since_ns, 20'000'000);
  const int64_t before = activity.report().since_ns;
  activity.doing("b");
  EXPECT_LT(activity.report().since_ns, before);
}

TEST(Activity, IsReportedWholeWhileItChanges) {
  Activity activity;
  std::jthread writer([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); i = 1 - i) {
      activity.awaits(std::string(200, i == 0 ? 'a' : 'b'), i);
      activity.progress();
    }
  });
  int64_t progress = 0;
  int seen[2] = {0, 0};  // reports of either value
  const auto deadline = after(std::chrono::seconds(60));
  while (seen[0] < 1'000 || seen[1] < 1'000) {
    ASSERT_LT(Clock::now(), deadline) << seen[0] << " of one value, " << seen[1] << " of the other";
    const ActivityReport report = activity.report();
    ASSERT_GE(report.progress, progress);
    progress = report.progress;
    if (report.awaited < 0) continue;
    ASSERT_EQ(report.awaits, std::string(200, report.awaited == 0 ? 'a' : 'b'));
    ++seen[report.awaited];
  }
}

TEST(Deadline, LeavesMillisecondsRoundedUp) {
  EXPECT_EQ(milliseconds_left(Clock::now() - milliseconds(5)), 0);
  EXPECT_GT(milliseconds_left(after(std::chrono::microseconds(900))), 0);
  const int left = milliseconds_left(after(milliseconds(5'000)));
  EXPECT_GT(left, 4'000);
  EXPECT_LE(left, 5'000);
  EXPECT_GT(milliseconds_left(Deadline::max()), 1'000'000'000);
}

TEST(Activity, TellsWhatIsEnqueuedFromWhatIsDone) {
  Activity activity;
  const auto done = std::make_shared<int64_t>(0);
  activity.progress();
  activity.doing("step 3: 0F0");
  activity.enqueued("step 3: 0F0", 4, done);
  activity.doing("step 3: 0F1");
  activity.enqueued("step 3: 0F1", 6, done);
  EXPECT_EQ(activity.report().doing, "step 3: 0F1");
  EXPECT_EQ(activity.report().device, "step 3: 0F0");
  EXPECT_EQ(activity.report().progress, 1);
  *done = 3;
  EXPECT_EQ(activity.report().device, "step 3: 0F0");
  EXPECT_EQ(activity.report().progress, 4) << "of parts of it, too";
  *done = 4;
  EXPECT_EQ(activity.report().device, "step 3: 0F1");
  *done = 6;
  EXPECT_EQ(activity.report().device, "");
}

TEST(Activity, ForgetsWhatAnotherDeviceWasGiven) {
  Activity activity;
  activity.enqueued("before", 9, std::make_shared<int64_t>(0));
  activity.enqueued("now", 1, std::make_shared<int64_t>(1));
  EXPECT_EQ(activity.report().device, "");
}

}  // namespace
}  // namespace kerf::runtime
