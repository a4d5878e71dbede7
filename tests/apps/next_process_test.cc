// What one process of a run gives to the next does not grow with the number of those before it.
#include "apps/next_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/handed_text.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The words of the process behind one of these words.
std::vector<std::string> next(const std::vector<std::string>& words, const NextFlags& flags) {
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const NextWords to = next_words(static_cast<int>(argv.size()), argv.data(), flags);
  std::vector<std::string> all(words.begin(), words.begin() + to.given);
  all.insert(all.end(), to.more.begin(), to.more.end());
  return all;
}

size_t bytes_of(const std::vector<std::string>& words) {
  return std::accumulate(words.begin(), words.end(), size_t{0},
                         [](size_t sum, const std::string& word) { return sum + word.size() + 1; });
}

const std::vector<std::string> kGiven{"kerf", "train", "lenet5", "--out", "run"};

TEST(NextWords, FollowThoseThatAPersonGave) {
  const auto first = next(kGiven, {{"--resume", "--odd/checkpoints"}, {"--checkpoints-go", ""}});
  EXPECT_THAT(first, ElementsAre("kerf", "train", "lenet5", "--out", "run", "--goes-on",
                                 "--checkpoints-go", "--resume=--odd/checkpoints"));
}

TEST(NextWords, KeepWhatAnEarlierProcessGaveUnlessItIsGivenAnew) {
  const auto first = next(kGiven, {{"--profile", "a=b"}, {"--resume", "x"}, {"--returning", "3"}});
  const auto second = next(first, {{"--workers", "2"}, {"--resume", "y"}});
  EXPECT_THAT(second, ElementsAre("kerf", "train", "lenet5", "--out", "run", "--goes-on",
                                  "--profile=a=b", "--resume=y", "--workers=2"))
      << "a descriptor is of one process";
}

// Plans for other speeds, and for fewer workers, by turns.
TEST(NextWords, DoNotGrowWithTheNumberOfChanges) {
  const NextFlags anew{{"--profile", "run/rebalance/profile.json"},
                       {"--devices", "run/rebalance/devices.json"},
                       {"--rebalanced", "run/rebalance/rebalanced.json"},
                       {"--returning", "17"},
                       {"--resume", "run/checkpoints"},
                       {"--checkpoints-go", ""}};
  std::vector<std::string> words = kGiven;
  std::vector<size_t> sizes;
  for (int change = 0; change < 3000; ++change) {
    words = next(words, anew);
    sizes.push_back(bytes_of(words));
    words = next(words, {{"--workers", std::to_string(9999 - change)}});
  }
  EXPECT_EQ(sizes.back(), sizes.at(1));
  EXPECT_LT(bytes_of(words), 300U);
  EXPECT_THAT(words, testing::Contains("--workers=7000"));
  EXPECT_THAT(words, testing::Contains("--profile=run/rebalance/profile.json"));
}

TEST(NextWords, OfAPersonWhoGivesTheMarkAreRefused) {
  for (const char* word : {"train", "-x", ""}) {
    const auto error = tests::error_of([&] { next({"kerf", "train", "--goes-on", word}, {}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->what(), HasSubstr("--goes-on: "));
  }
}

std::vector<runtime::Returning> handed_over(const std::vector<runtime::Returning>& all) {
  return take_returning(::dup(hand_returning(all).number()));
}

TEST(Returning, ComeBackWholeHoweverManyTheyAre) {
  std::vector<runtime::Returning> all{
      {{"one \"host\", [4]", 10}, 2}, {{"one \"host\", [4]", 11}, 0}, {{"another", 10}, 1}};
  for (int host = 0; host < 5000; ++host)  // far more than the system takes of a flag
    all.push_back({{kerf::format("host-{}.of-a-long-domain.example.org", host), host}, host + 3});
  const auto read = handed_over(all);
  ASSERT_EQ(read.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(read[i].origin, all[i].origin);
    EXPECT_EQ(read[i].worker, all[i].worker);
  }
  EXPECT_THAT(handed_over({}), IsEmpty());
}

TEST(Returning, OfWhatIsNoneOfThemAreRefusedAtTheFlag) {
  const auto refused = [](int number, const std::string& why) {
    const auto error = tests::error_of([&] { take_returning(number); });
    ASSERT_TRUE(error) << why;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->what(), testing::AllOf(HasSubstr(kReturningFlag), HasSubstr(why)));
  };
  refused(STDIN_FILENO, "nothing that a process handed to the next");
  refused(::dup(runtime::hand_text(R"({"host": 1})").number()), "host");
  refused(::dup(runtime::hand_text("{").number()), "");
}

}  // namespace
}  // namespace kerf::apps
