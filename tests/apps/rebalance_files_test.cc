// What one process of a run leaves for the next that goes on under another plan: each file is one
// that its flag reads.
#include "apps/rebalance_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
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

class RebalanceFiles : public testing::Test {
 protected:
  NextFlags go_on() { return flags_to_go_on(folder_, told_, profile_, devices_, model_); }
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

// Who goes on with fewer has other numbers: nobody is slow.
TEST_F(RebalanceFiles, OfFewerSayThatAllAreAlike) {
  go_on();
  auto flags = flags_of_fewer(folder_, 3, told_);
  EXPECT_EQ(flags.count("--profile"), 0U) << "operators take what they took";
  const partitioner::Capacities read = devices(flags.at("--devices"));
  ASSERT_EQ(read.workers.size(), 3U);
  for (const partitioner::Capacity& each : read.workers) EXPECT_EQ(each.speed, 1);
  EXPECT_EQ(to_json(read_rebalanced(flags.at("--rebalanced")).all), to_json(told_.all));
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

// A person's, of another run, may have the same names.
TEST_F(RebalanceFiles, OfNoRunStayAndAreTold) {
  fs::create_directory(folder_);
  EXPECT_EQ(strange_file(folder_), fs::path());
  runtime::write_file_atomic(folder_ / "mine", "");
  EXPECT_EQ(strange_file(folder_), fs::path());
  runtime::write_file_atomic(folder_ / "devices.json", "mine");
  EXPECT_EQ(strange_file(folder_), folder_ / "devices.json");
  remove_rebalance_files(folder_);
  EXPECT_TRUE(fs::exists(folder_ / "devices.json"));
  fs::remove(folder_ / "devices.json");
  go_on();
  EXPECT_EQ(strange_file(folder_), fs::path()) << "they are a run's";
}

TEST_F(RebalanceFiles, LieWithinTheirFolderByWhateverPath) {
  go_on();
  const fs::path file = folder_ / kProfileFile;
  const fs::path link = within_ / "link", other = within_ / "other.json";
  fs::create_symlink(file, link);
  runtime::write_file_atomic(other, "{}");
  for (const fs::path& each : {file, link, folder_, folder_ / ".." / "rebalance" / "none.json",
                               fs::relative(file), folder_ / ""})
    EXPECT_TRUE(lies_within(each, folder_)) << each;
  for (const fs::path& each : {other, within_.path(), fs::path("none.json")})
    EXPECT_FALSE(lies_within(each, folder_)) << each;
}

}  // namespace
}  // namespace kerf::apps
