// The free cut: any index set of any operator to any worker, and every mistake in the file named.
#include <gmock/gmock.h>

#include "partitioner/cut.h"
#include "partitioner/zoo.h"

namespace kerf::partitioner {
namespace {

using ::testing::HasSubstr;

Model model() { return make_zoo_model("mlp", {{20, 12, 8, 10}}); }

Assignment cut(const std::string& shares, int workers = 3) {
  PlanRequest request;
  request.cut = Cut::kFree;
  request.workers = workers;
  request.shares = shares;
  request.shares_origin = "shares.json";
  return cut_free(model(), request);
}

std::string file(const std::string& shares) {
  return format("{{\"kerf_shares\": 1, \"shares\": {}}}", shares);
}

const ops::Layout& layout(const Assignment& assignment, const std::string& node) {
  const Model m = model();
  return assignment.layouts[static_cast<size_t>(m.node(m.find_node(node)).outputs[0])];
}

ops::IndexSet features(const Assignment& assignment, const std::string& node, int part) {
  const ops::Share* share = layout(assignment, node).find(part);
  return share == nullptr ? ops::IndexSet::none() : share->box.axes[1];
}

TEST(FreeCut, GivesWhatTheFileSays) {
  const auto cut1 = cut(file(R"({"fc1": {"0": "0-4,9", "2": "5-8,10,11"}})"));
  EXPECT_EQ(ops::to_string(features(cut1, "fc1", 0)), "0-4,9");
  EXPECT_TRUE(features(cut1, "fc1", 1).empty());
  EXPECT_EQ(ops::to_string(features(cut1, "fc1", 2)), "5-8,10-11");
}

TEST(FreeCut, UnlistedFollowersInheritAndOthersAreDividedEvenly) {
  const auto cut1 = cut(file(R"({"fc1": {"0": "0-4,9", "2": "5-8,10,11"}})"));
  EXPECT_EQ(layout(cut1, "relu1"), layout(cut1, "fc1"));
  EXPECT_EQ(ops::to_string(features(cut1, "fc2", 0)), "0-2");
  EXPECT_EQ(ops::to_string(features(cut1, "fc2", 2)), "6-7");
}

TEST(FreeCut, PinsTheLoss) {
  EXPECT_EQ(ops::describe(layout(cut(file("{}")), "loss")), "whole on 0");
  EXPECT_EQ(ops::describe(layout(cut(file(R"({"loss": {"2": "all"}})")), "loss")), "whole on 2");
}

TEST(FreeCut, EqualSetsOnSeveralWorkersAreReplicas) {
  EXPECT_EQ(ops::describe(layout(cut(file(R"({"fc2": {"0": "all", "1": "0-7"}})")), "fc2")),
            "replicated on 0,1");
}

struct Mistake {
  std::string shares;
  std::string complaint;
};
class FreeCutMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(FreeCutMistake, IsNamedWithFileAndNode) {
  try {
    cut(GetParam().shares);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FreeCutMistake,
    ::testing::Values(
        Mistake{"", "give --shares FILE"}, Mistake{"{", "shares.json:1:"},
        Mistake{R"({"kerf_shares": 2, "shares": {}})", "shares.json: \"kerf_shares\" must be 1"},
        Mistake{R"({"shares": {}})", "shares.json: \"kerf_shares\" is missing"},
        Mistake{R"({"kerf_shares": 1, "shares": {}, "more": 0})", "there is no \"more\""},
        Mistake{R"({"kerf_shares": 1, "shares": []})", "\"shares\" must be an object"},
        Mistake{file(R"({"fc9": {"0": "all"}})"),
                "shares.json: node fc9: mlp has no node of this name"},
        Mistake{file(R"({"fc1": {"0": "0-5", "1": "5-11"}})"),
                "shares.json: node fc1: workers 0 and 1 both have 5"},
        Mistake{file(R"({"fc1": {"0": "0-4", "1": "6-11"}})"),
                "shares.json: node fc1: nobody has 5"},
        Mistake{file(R"({"fc1": {"0": "0-4", "1": "5-12"}})"),
                "shares.json: node fc1: worker 1: index 12 is beyond the last, 11"},
        Mistake{file(R"({"fc1": {"3": "all"}})"), "shares.json: node fc1: \"3\" is not a worker"},
        Mistake{file(R"({"fc1": {"-1": "all"}})"), "\"-1\" is not a worker"},
        Mistake{file(R"({"fc1": {"one": "all"}})"), "\"one\" is not a worker"},
        Mistake{file(R"({"fc1": {"1": "all", "01": "all"}})"), "worker 1 is there twice"},
        Mistake{file(R"({"fc1": {}})"), "shares.json: node fc1: must be an object"},
        Mistake{file(R"({"fc1": {"0": 5}})"), "worker 0: indices are text"},
        Mistake{file(R"({"fc1": {"0": "0-x"}})"), "shares.json: node fc1, worker 0"},
        Mistake{file(R"({"fc1": {"0": "none"}})"), "shares.json: node fc1: nobody has all"},
        Mistake{file(R"({"loss": {"0": "0-1"}})"), "has no features to divide"},
        Mistake{file(R"({"loss": {"0": "all", "1": "all"}})"),
                "the loss is computed by one worker"}));

}  // namespace
}  // namespace kerf::partitioner
