// PyTorch's pipeline CSV: read strictly, written back byte for byte.
#include "schedmp/torch_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "schedmp/verify.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(TorchCsv, IsWrittenBackByteForByte) {
  for (const std::string text : {
           "0F0,0F1,,,0B0,0B1\n,1F0,1F1,1B0,1B1,\n",
           "0F0,0F1\r\n1F0,1F1\r\n",
           "0UNSHARD,0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0I0,0W0,0RESHARD,0REDUCE_GRAD,"
           "0WAIT_REDUCE_GRAD\n",
           "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n",
           ",\n0F0\n",
           "0F0,0B0",
       })
    EXPECT_EQ(write_torch_csv(parse_torch_csv(text, "x.csv")), text);
}

TEST(TorchCsv, IsAScheduleOfWhatItComputes) {
  const Schedule schedule =
      schedule_of(parse_torch_csv("0F0,0SEND_F0,0F1,0SEND_F1,,0RECV_B0,0I0,0W0,0RECV_B1,0B1\n"
                                  "1RECV_F0,1F0,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1B1\n",
                                  "x.csv"),
                  "x", "x.csv");
  EXPECT_EQ(write_schedule(schedule),
            "kerf-schedule 1\nname x\nworkers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\n"
            "row 0: 0F0 0F1 0I0 0W0 0B1 0U\n"
            "row 1: 1F0 1F1 1B0 1B1 1U\n");
}

TEST(TorchCsv, HoldsEveryScheduleOfWorkersAlone) {
  for (const std::string& name : tests::schedules_of_one_replica()) {
    const Schedule schedule = make_schedule(name, chain_of_shape(name, 3), 6);
    const std::string text = write_torch_csv(torch_csv_of(schedule));
    const Schedule read = schedule_of(parse_torch_csv(text, "x.csv"), schedule.name, "x.csv");
    EXPECT_EQ(read.groups, schedule.groups);
    EXPECT_THAT(check_order(read), IsEmpty()) << name;
    EXPECT_EQ(write_torch_csv(torch_csv_of(read)), text);
  }
}

TEST(TorchCsv, SaysWhatItCannotSay) {
  const auto refusal = [](const std::string& body) {
    try {
      torch_csv_of(parse_schedule("kerf-schedule 1\nname x\n" + body, "test"));
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_THAT(refusal("workers 2\nmicro-batches 1\nstage 0 on 0,1\nrow 0: 0F0\nrow 1: 0F0\n"),
              HasSubstr("that stage 0 has several workers"));
  EXPECT_THAT(refusal("workers 1\nmicro-batches 1\nstage 0 on 0\nrow 0: 0F0 0B0@0 0U\n"),
              HasSubstr("0B0@0 of worker 0"));
  EXPECT_THAT(refusal("workers 1\nmicro-batches 1\nstage 0 on 0\nrow 0: 0F0 0RECOMPUTE0 0B0 0U\n"),
              HasSubstr("0RECOMPUTE0 of worker 0"));
}

struct WrongCsv {
  const char* text;
  const char* where;
  const char* complaint;
};
class TorchCsvErrors : public testing::TestWithParam<WrongCsv> {};

TEST_P(TorchCsvErrors, NameLineColumnAndWhatWasExpected) {
  try {
    schedule_of(parse_torch_csv(GetParam().text, "x.csv"), "x", "x.csv");
    FAIL() << GetParam().text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(std::string(GetParam().where) + ":"));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, TorchCsvErrors,
    testing::Values(WrongCsv{"", "x.csv", "there is no line"},
                    WrongCsv{"0F0,F1\n", "x.csv:1:5", "STAGE KIND MICRO-BATCH"},
                    // PyTorch's own expression is not anchored at its end, and takes these.
                    WrongCsv{"0F0junk\n", "x.csv:1:4", "a comma or the line's end"},
                    WrongCsv{"0F0\n1F0 1B0\n", "x.csv:2:4", "a comma or the line's end"},
                    WrongCsv{"0F\n", "x.csv:1:3", "F must name a micro-batch"},
                    WrongCsv{"0UNSHARD3\n", "x.csv:1:10", "UNSHARD must not name"},
                    WrongCsv{"0X0\n", "x.csv:1:2", "a kind expected, one of F I W B"},
                    WrongCsv{"00F0\n", "x.csv:1:1", "without leading zeros"},
                    WrongCsv{"0F99999999\n", "x.csv:1:3", "within 0 and"},
                    WrongCsv{"(0F0;0B0\n", "x.csv:1:9", "';' or ')' expected"},
                    WrongCsv{"(0F0;0B0)\n", "x.csv:1:10", "OVERLAP_F_B expected"},
                    WrongCsv{"(0F0)OVERLAP_F_B\n", "x.csv:1:17", "two or more"},
                    WrongCsv{"0F0\n0B0\n", "x.csv", "stage 0 is on rank 0, and on rank 1 by 0B0"},
                    WrongCsv{"0F0\n2F0\n", "x.csv", "no rank has stage 1"},
                    WrongCsv{",\n", "x.csv", "there is no stage"},
                    WrongCsv{"0F0\n\n", "x.csv", "rank 1 computes nothing"}));

}  // namespace
}  // namespace kerf::schedmp
