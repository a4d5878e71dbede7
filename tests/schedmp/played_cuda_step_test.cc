// A step on a GPU that the host plays, which does nothing before somebody waits for it: so what a
// worker says while the GPU is at work is of a host that is far ahead.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/schedmp/scene.h"

namespace kerf::schedmp {
namespace {

using runtime::ActivityReport;

TEST(AStepOfAGpu, SaysWhatIsEnqueuedAndWhatTheGpuIsAt) {
  std::vector<ActivityReport> reports;
  (void)pipeline(1).run({.device = "cuda:0", .reading = [&](const ActivityReport& report) {
                           reports.push_back(report);
                         }});
  ASSERT_EQ(reports.size(), 8u) << "inputs and labels of four micro-batches";
  for (size_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].doing, "step 0: 0U");
    EXPECT_EQ(reports[i].device, kerf::format("step 0: 0F{}", i / 2));
    EXPECT_GE(reports[i].progress, reports[i == 0 ? 0 : i - 1].progress);
  }
  EXPECT_GT(reports[2].progress, reports[0].progress) << "the GPU has done a micro-batch";
}

TEST(AStepOfAGpu, IsTracedByItsEvents) {
  int64_t first_read = 0;
  const kerf::tests::CrewStep step =
      pipeline(1).run({.device = "cuda:0", .trace = true, .reading = [&](const ActivityReport&) {
                         if (first_read == 0) first_read = runtime::now_ns();
                       }});
  int64_t update_ends = 0;
  for (const runtime::Span& each : step.spans[0]) {
    if (each.lane == 0 && each.name == "0F0") {
      EXPECT_GE(each.end_ns, first_read);
    }
    if (each.lane == 0 && each.name == "0U") update_ends = each.end_ns;
  }
  EXPECT_GE(update_ends, first_read) << "nothing was done before the step's end was waited for";
}

}  // namespace
}  // namespace kerf::schedmp
