// What one process of a run leaves for the next that goes on under another plan: each file is one
// that its flag reads.
#include "apps/rebalance_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/profile_file.h"
#include "apps/report/json_fields.h"
#include "apps/report/operator_times.h"
#include "partitioner/capacities.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "tests/partitioner/sample_models.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RebalanceFiles : public testing::Test {
 protected:
  static std::map<std::string, std::string> by_name(const std::vector<std::string>& flags) {
    EXPECT_EQ(flags.size() % 2, 0U);
    std::map<std::string, std::string> values;
    for (size_t i = 0; i + 1 < flags.size(); i += 2) values[flags[i]] = flags[i + 1];
    return values;
  }
  std::map<std::string, std::string> go_on() {
    return by_name(flags_to_go_on(folder_, told_, profile_, devices_, model_));
  }
  static partitioner::Capacities devices(const std::string& file) {
    return partitioner::read_devices(runtime::read_file(file, 1 << 16), file, {});
  }

  const tests::TemporaryFolder within_;
  const fs::path folder_ = within_ / "rebalance";
  const partitioner::Model model_ = partitioner::testing::small_mlp();
  const partitioner::Plan plan_ = partitioner::testing::plan_of(
      model_, partitioner::testing::request_of(partitioner::Cut::kLayer, 2));
  const std::vector<OperatorTimes> times_{{model_.node(0).name, {3e-3, 0, 2e-3}, {1e-3, 0, 1e-3}}};
  Json profile_ = profile_file(model_, plan_, "cpu", times_);
  partitioner::Capacities devices_{.workers = {{.speed = 1}, {.speed = 0.4}}};
  const Rebalanced told_{{{.step = 7,
                           .worker = 1,
                           .slowness = 2.5,
                           .before_seconds = 0.5,
                           .after_seconds = 0.25,
                           .bytes = 64,
                           .seconds = 1.5}},
                         99};
};

TEST_F(RebalanceFiles, AreWhatTheFlagsOfTheNextProcessRead) {
  auto flags = go_on();
  EXPECT_EQ(devices(flags.at("--devices")), devices_);
  EXPECT_EQ(read_profile_file(flags.at("--profile"), model_), profile_of(times_));
  const Rebalanced read = read_rebalanced(flags.at("--rebalanced"));
  EXPECT_EQ(read.left_ns, 99);
  EXPECT_EQ(to_json(read.all), to_json(told_.all));
}

// Who goes on with fewer has other numbers: nobody is slow, and nobody's place is kept.
TEST_F(RebalanceFiles, OfFewerSayThatAllAreAlike) {
  go_on();
  auto flags = by_name(flags_of_fewer(folder_, 3, told_));
  EXPECT_EQ(flags.count("--profile"), 0U) << "operators take what they took";
  const partitioner::Capacities read = devices(flags.at("--devices"));
  ASSERT_EQ(read.workers.size(), 3U);
  for (const partitioner::Capacity& each : read.workers) EXPECT_EQ(each.speed, 1);
  EXPECT_EQ(to_json(read_rebalanced(flags.at("--rebalanced")).all), to_json(told_.all));
  EXPECT_THAT(read_returning(flags.at(kReturningFlag)), IsEmpty());
}

TEST_F(RebalanceFiles, ThatCannotBeWrittenAreNamed) {
  runtime::write_file_atomic(folder_, "no folder");
  const auto error = tests::error_of([&] { go_on(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), HasSubstr((folder_ / "rebalanced.json").string()));
  remove_rebalance_files(folder_);
  EXPECT_TRUE(fs::exists(folder_)) << "it is somebody else's";
}

TEST_F(RebalanceFiles, ThatCouldNotBeReadAreNamed) {
  profile_["fingerprint"] = "another";
  const auto error = tests::error_of([&] { go_on(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->what(), HasSubstr((folder_ / kProfileFile).string()));
}

TEST_F(RebalanceFiles, GoAndWhatElseIsThereStays) {
  go_on();
  remove_rebalance_files(folder_);
  EXPECT_FALSE(fs::exists(folder_));
  go_on();
  runtime::write_file_atomic(folder_ / "mine", "");
  remove_rebalance_files(folder_);
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(folder_), {}),
              ElementsAre(folder_ / "mine"));
}

TEST(Returning, IsAFlagThatComesBackWhole) {
  const std::vector<runtime::Returning> all{
      {{"one \"host\", [4]", 10}, 2}, {{"one \"host\", [4]", 11}, 0}, {{"another", 10}, 1}};
  const std::string text = returning_text(all);
  EXPECT_EQ(text.front(), '{') << "the parser of flags takes brackets for a list";
  const auto read = read_returning(text);
  ASSERT_EQ(read.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(read[i].origin, all[i].origin);
    EXPECT_EQ(read[i].worker, all[i].worker);
  }
  EXPECT_THAT(read_returning(returning_text({})), IsEmpty());
  const auto error = tests::error_of([] { read_returning(R"({"host": 1})"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr(kReturningFlag));
}

}  // namespace
}  // namespace kerf::apps
