// A text for the next process is read once, and whatever else has a number is refused.
#include "runtime/handed_text.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/error.h"
#include "runtime/open_file.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using testing::HasSubstr;

constexpr size_t kMost = 1 << 20;

int taken_over(OpenFile file) {
  const int number = ::dup(file.number());
  EXPECT_GE(number, 0);
  return number;
}

TEST(HandedText, IsTakenOnce) {
  for (const std::string& text :
       {std::string(), std::string("a\0b", 3), std::string(300'000, 'x')}) {
    const int number = taken_over(hand_text(text));
    EXPECT_EQ(take_handed_text(number, kMost), text);
    EXPECT_EQ(::fcntl(number, F_GETFD), -1) << "it is open still";
    EXPECT_TRUE(tests::error_of([&] { take_handed_text(number, kMost); }));
  }
}

TEST(HandedText, IsChangedByNobody) {
  const OpenFile file = hand_text("as it is");
  EXPECT_EQ(::pwrite(file.number(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(file.number(), 0), -1);
}

TEST(HandedText, NothingElseIsTakenForOne) {
  const OpenFile none(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const OpenFile unsealed(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_GE(unsealed.number(), 0);
  for (const int number : {none.number(), unsealed.number(), STDERR_FILENO, -1, 1'000'000}) {
    const auto error = tests::error_of([&] { take_handed_text(number, kMost); });
    ASSERT_TRUE(error) << number;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->what(), HasSubstr(kerf::format("descriptor {} ", number)));
  }
  EXPECT_NE(::fcntl(unsealed.number(), F_GETFD), -1) << "it was somebody else's";
}

TEST(HandedText, TooMuchIsRefused) {
  const int number = taken_over(hand_text("ten bytes."));
  const auto error = tests::error_of([&] { take_handed_text(number, 9); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("10 bytes, more than 9"));
}

}  // namespace
}  // namespace kerf::runtime
