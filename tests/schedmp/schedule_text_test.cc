// The text of schedules: identical when read back, and strict with strangers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using testing::HasSubstr;

using tests::complaint;

TEST(ScheduleText, ReadsBackIdentically) {
  for (int m = 1; m <= 5; ++m)
    for (const std::string& name : tests::schedules_of(4, m)) {
      Pipeline pipeline = chain_of_shape(name, 4);
      for (std::vector<int>& group : pipeline.groups)
        if (group[0] == 0) group.push_back(4);
      const Schedule schedule = make_schedule(name, pipeline, m);
      const std::string text = write_schedule(schedule);
      EXPECT_EQ(parse_schedule(text, "s.txt"), schedule);
      EXPECT_EQ(write_schedule(parse_schedule(text, "s.txt")), text);
    }
}

TEST(ScheduleText, IsWhatAPersonWouldWrite) {
  EXPECT_EQ(write_schedule(one_f_one_b(chain_of({{0}, {1}}), 2)),
            "kerf-schedule 1\n"
            "name 1f1b\n"
            "workers 2\n"
            "micro-batches 2\n"
            "stage 0 on 0\n"
            "stage 1 on 1\n"
            "row 0: 0F0 0F1 0B0 0B1 0U\n"
            "row 1: 1F0 1B0 1F1 1B1 1U\n");
}

TEST(ScheduleText, AllowsCommentsAndBlankLines) {
  EXPECT_EQ(parse_schedule("# mine\n\nkerf-schedule 1 # version\nname gpipe\nworkers 1\n"
                           "micro-batches 1\nstage 0 on 0\n\nrow 0: 0F0 0B0 0U\n",
                           "s.txt"),
            gpipe(chain_of({{0}}), 1));
}

constexpr const char* kHeader =
    "kerf-schedule 1\nname x\nworkers 1\nmicro-batches 2\nstage 0 on 0\n";

TEST(ScheduleText, ErrorsNameFileLineAndColumn) {
  EXPECT_THAT(complaint(kHeader + std::string("row 0: 0F0 0F9\n")), HasSubstr("s.txt:6:12"));
  EXPECT_THAT(complaint(kHeader + std::string("row 0: 0F0 1F0\n")), HasSubstr("stage must be"));
  EXPECT_THAT(complaint(kHeader + std::string("row 0: 0F0x\n")), HasSubstr("micro-batch must be"));
  EXPECT_THAT(complaint(kHeader + std::string("row 0: 0Q0\n")), HasSubstr("kind"));
  EXPECT_THAT(complaint(kHeader + std::string("row 0: 0F\n")), HasSubstr("must name"));
  EXPECT_THAT(complaint(kHeader + std::string("row 0:\nrow 0:\n")), HasSubstr("stands twice"));
  EXPECT_THAT(complaint(kHeader), HasSubstr("row 0 is missing"));
  EXPECT_THAT(complaint(""), HasSubstr("header"));
  EXPECT_THAT(complaint("kerf-schedule 2\n"), HasSubstr("version"));
  EXPECT_THAT(complaint("hello\n"), HasSubstr("begins with"));
  EXPECT_THAT(complaint("kerf-schedule 1\nname x\nworkers 99999999999999999999\n"),
              HasSubstr("workers"));
}

}  // namespace
}  // namespace kerf::schedmp
