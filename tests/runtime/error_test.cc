#include "runtime/error.h"

#include <gmock/gmock.h>

#include "tests/support/errors.h"

namespace kerf {
namespace {

using testing::HasSubstr;

TEST(Error, SaysThePlaceBeforeTheMessage) {
  const Error error(ErrorCode::kUsage, "is truncated", "plan.json:12");
  EXPECT_STREQ(error.what(), "plan.json:12: is truncated");
  EXPECT_EQ(error.message(), "is truncated");
  EXPECT_EQ(error.where(), "plan.json:12");
}

TEST(Error, WithoutAPlaceIsItsMessage) {
  EXPECT_STREQ(Error(ErrorCode::kLost, "worker 2 died").what(), "worker 2 died");
}

TEST(ExitCode, IsTwoForWhatThePersonCanPutRight) {
  EXPECT_EQ(exit_code(ErrorCode::kUsage), 2);
  EXPECT_EQ(exit_code(ErrorCode::kInfeasible), 2);
  EXPECT_EQ(exit_code(ErrorCode::kUnavailable), 2);
}

TEST(ExitCode, Is130ForAnInterruptAndOneForAllElse) {
  EXPECT_EQ(exit_code(ErrorCode::kInterrupted), 130);
  for (const ErrorCode code : {ErrorCode::kTimeout, ErrorCode::kLost, ErrorCode::kDeviceLost,
                               ErrorCode::kProtocol, ErrorCode::kInternal})
    EXPECT_EQ(exit_code(code), 1) << to_string(code);
}

TEST(Check, NamesTheConditionTheLineAndTheMessage) {
  const int shares = 3;
  const auto error = tests::error_of([&] { KERF_CHECK(shares == 2, "{} shares", shares); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kInternal);
  EXPECT_THAT(error->message(), HasSubstr("shares == 2"));
  EXPECT_THAT(error->message(), HasSubstr("3 shares"));
  EXPECT_THAT(error->where(), HasSubstr("error_test.cc:"));
}

TEST(Check, PassesWithoutAMessage) { EXPECT_NO_THROW(KERF_CHECK(1 + 1 == 2)); }

TEST(HumanText, ReadsBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1 MiB");
  EXPECT_EQ(human_bytes(-2048), "-2 KiB");
  EXPECT_EQ(human_bytes(139.4 * (1 << 30)), "139 GiB");
}

TEST(HumanText, ReadsSeconds) {
  EXPECT_EQ(human_seconds(0), "0 s");
  EXPECT_EQ(human_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(human_seconds(4.2e-6), "4.2 us");
  EXPECT_EQ(human_seconds(3e-8), "30 ns");
  EXPECT_EQ(human_seconds(0.99999), "1 s");
  EXPECT_EQ(human_seconds(59.94), "59.9 s");
  EXPECT_EQ(human_seconds(125), "2 min 05 s");
  EXPECT_EQ(human_seconds(3725), "1 h 02 min");
}

TEST(HumanText, ReadsCounts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1,000");
  EXPECT_EQ(human_count(1234567), "1,234,567");
  EXPECT_EQ(human_count(-123456), "-123,456");
}

TEST(HumanText, CountsThings) {
  EXPECT_EQ(plural(1, "slot"), "1 slot");
  EXPECT_EQ(plural(0, "slot"), "0 slots");
  EXPECT_EQ(plural(1234, "step"), "1,234 steps");
  EXPECT_EQ(plural(8, "micro-batch"), "8 micro-batches");
}

}  // namespace
}  // namespace kerf
