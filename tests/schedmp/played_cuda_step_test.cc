// A step on a GPU that the host plays, which does nothing before somebody waits for it: so what a
// worker says while the GPU is at work is of a host that is far ahead.
#include <gmock/gmock.h>

#include "tests/schedmp/scene.h"

namespace kerf::schedmp {
namespace {

using runtime::ActivityReport;

TEST(AStepOfAGpu, SaysWhatIsEnqueuedAndWhatTheGpuIsAt) {
  std::vector<ActivityReport> reports;
  (void)pipeline(1, runtime::DeviceKind::kCuda)
      .run({.device = "cuda:0",
            .reading = [&](const ActivityReport& report) { reports.push_back(report); }});
  ASSERT_EQ(reports.size(), 8u) << "inputs and labels of four micro-batches";
  // Rows are staged, so that the host waits for those before; it is through when the last are read.
  EXPECT_EQ(reports.back().doing, "step 0: 0U (behind 0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3)");
  EXPECT_EQ(reports.back().device, "step 0: 0F3");
  for (size_t i = 1; i < reports.size(); ++i)
    EXPECT_GE(reports[i].progress, reports[i - 1].progress);
  EXPECT_GT(reports.back().progress, reports.front().progress) << "what the GPU does is progress";
}

TEST(AStepOfAGpu, IsTracedByItsEvents) {
  int64_t first_read = 0;
  const kerf::tests::CrewStep step =
      pipeline(1, runtime::DeviceKind::kCuda)
          .run({.device = "cuda:0", .trace = true, .reading = [&](const ActivityReport&) {
                  if (first_read == 0) first_read = runtime::now_ns();
                }});
  int64_t update_ends = 0;
  int forwards = 0;
  for (const runtime::Span& each : step.spans[0]) {
    if (each.lane == 0 && each.name == "0F0") {
      EXPECT_GE(each.end_ns, first_read);
      ++forwards;
    }
    if (each.lane == 0 && each.name == "0U") update_ends = each.end_ns;
  }
  EXPECT_EQ(forwards, 1);
  EXPECT_GE(update_ends, first_read) << "nothing was done before the step's end was waited for";
}

}  // namespace
}  // namespace kerf::schedmp
