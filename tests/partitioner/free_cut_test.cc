// The free cut: any index set of any operator to any worker, and every mistake in the file named.
#include <gmock/gmock.h>

#include "partitioner/channels_last.h"
#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "tests/support/errors.h"

namespace kerf::partitioner {
namespace {

using ::testing::HasSubstr;

Model model() { return make_zoo_model("mlp", {{20, 12, 8, 10}}); }

// Micro-batches have 16 samples.
Assignment cut(const Model& of, const std::string& shares, int workers = 3) {
  PlanRequest request;
  request.cut = Cut::kFree;
  request.workers = workers;
  request.shares = shares;
  request.shares_origin = "shares.json";
  return cut_free(of, request);
}
Assignment cut(const std::string& shares) { return cut(model(), shares); }

std::string file(const std::string& shares) {
  return format("{{\"kerf_shares\": 1, \"shares\": {}}}", shares);
}

// Of a node's output.
ops::Layout layout(const Model& m, const Assignment& assignment, const std::string& node) {
  const auto layouts = layouts_of(m, assignment.division);
  return layouts[static_cast<size_t>(m.node(m.find_node(node)).outputs[0])];
}
ops::Layout layout(const Assignment& assignment, const std::string& node) {
  return layout(model(), assignment, node);
}

// What a part computes of a node; "nothing".
std::string iterations(const Model& m, const Assignment& assignment, const std::string& node,
                       int part) {
  const ops::Layout& of_node = assignment.division.nodes[static_cast<size_t>(m.find_node(node))];
  const ops::Share* share = of_node.find(part);
  return share == nullptr ? "nothing" : ops::to_string(share->box);
}

ops::IndexSet features(const Assignment& assignment, const std::string& node, int part) {
  const ops::Layout of_node = layout(assignment, node);
  const ops::Share* share = of_node.find(part);
  return share == nullptr ? ops::IndexSet::none() : share->box.axes[1];
}

TEST(FreeCut, GivesWhatTheFileSays) {
  const auto cut1 = cut(file(R"({"fc1": {"0": "0-4,9", "2": "5-8,10,11"}})"));
  EXPECT_EQ(ops::to_string(features(cut1, "fc1", 0)), "0-4,9");
  EXPECT_TRUE(features(cut1, "fc1", 1).empty());
  EXPECT_EQ(ops::to_string(features(cut1, "fc1", 2)), "5-8,10-11");
}

// With channels last there is a node between the data and what reads them.
TEST(FreeCut, WhatOnlyMovesDataFollowsItsReader) {
  const Model lenet = channels_last(make_zoo_model("lenet5"));
  const auto divided =
      cut(lenet, file(R"({"conv1": {"0": {"samples": "0-8"}, "2": {"samples": "9-15"}}})"));
  const ops::Layout image =
      layouts_of(lenet, divided.division)[static_cast<size_t>(lenet.find_value("image"))];
  ASSERT_EQ(image.shares.size(), 2U);
  EXPECT_EQ(ops::to_string(image.find(0)->box.axes[0]), "0-8");
  EXPECT_EQ(ops::to_string(image.find(2)->box.axes[0]), "9-15");
  // A channel is computed out of all rows, by who has it.
  const auto by_channel = cut(lenet, file(R"({"conv1": {"0": "0-1", "1": "2-5"}})"));
  const ops::Layout whole =
      layouts_of(lenet, by_channel.division)[static_cast<size_t>(lenet.find_value("image"))];
  EXPECT_EQ(ops::describe(whole), "replicated on 0,1");
}

TEST(FreeCut, UnlistedFollowersInheritAndOthersAreDividedEvenly) {
  const auto cut1 = cut(file(R"({"fc1": {"0": "0-4,9", "2": "5-8,10,11"}})"));
  EXPECT_EQ(layout(cut1, "relu1"), layout(cut1, "fc1"));
  EXPECT_EQ(ops::to_string(features(cut1, "fc2", 0)), "0-2");
  EXPECT_EQ(ops::to_string(features(cut1, "fc2", 2)), "6-7");
}

TEST(FreeCut, PinsTheLoss) {
  EXPECT_EQ(ops::describe(layout(cut(file("{}")), "loss")), "partial sums on 0,1,2");
  EXPECT_EQ(ops::describe(layout(cut(file(R"({"loss": {"2": "all"}})")), "loss")), "whole on 2");
  EXPECT_EQ(ops::describe(layout(cut(file(R"({"loss": {"0": "all", "2": "all"}})")), "loss")),
            "replicated on 0,2");
}

TEST(FreeCut, EqualSetsOnSeveralWorkersAreReplicas) {
  EXPECT_EQ(ops::describe(layout(cut(file(R"({"fc2": {"0": "all", "1": "0-7"}})")), "fc2")),
            "replicated on 0,1");
}

TEST(FreeCut, DividesSamples) {
  const Model m = model();
  const auto cut1 = cut(
      file(R"({"fc1": {"0": {"samples": "0-7"}, "2": {"samples": "8-15"}}, "fc2": {"1": "all"}})"));
  EXPECT_EQ(iterations(m, cut1, "fc1", 0), "[0-7, all, all]");
  EXPECT_EQ(iterations(m, cut1, "fc1", 1), "nothing");
  EXPECT_EQ(iterations(m, cut1, "fc1", 2), "[8-15, all, all]");
  EXPECT_EQ(ops::describe(layout(cut1, "fc1")), "split on axis 0 over 0,2");
  EXPECT_EQ(layout(cut1, "relu1"), layout(cut1, "fc1")) << "followers follow samples, too";
}

TEST(FreeCut, DividesTheLossBySamplesIntoPartialSums) {
  const auto cut1 =
      cut(file(R"({"loss": {"0": {"samples": "0-4,9"}, "1": {"samples": "5-8,10-15"}}})"));
  const ops::Layout loss = layout(cut1, "loss");
  EXPECT_EQ(ops::describe(loss), "partial sums on 0,1");
  ASSERT_NE(loss.find(1), nullptr);
  ASSERT_FALSE(loss.find(1)->slices.empty());
  EXPECT_EQ(ops::to_string(loss.find(1)->slices[0]), "5-8,10-15");
}

TEST(FreeCut, DividesRowsOfImages) {
  const Model lenet = make_zoo_model("lenet5");
  const auto cut1 = cut(lenet, file(R"({"conv1": {"0": {"rows": "0-13"}, "1": {"rows": "14-27"}},
                                        "pool2": {"0": {"samples": "0-2", "channels": "0-3"},
                                                  "1": {"samples": "3-15", "channels": "0-3"},
                                                  "2": {"channels": "4-15"}}})"));
  EXPECT_EQ(iterations(lenet, cut1, "conv1", 0), "[all, all, all, 0-13, all]");
  EXPECT_EQ(iterations(lenet, cut1, "conv1", 1), "[all, all, all, 14-27, all]");
  EXPECT_EQ(ops::describe(layout(lenet, cut1, "conv1")), "split on axis 2 over 0,1");
  EXPECT_EQ(ops::describe(layout(lenet, cut1, "pool2")),
            "[0-2, 0-3, all, all] on 0; [3-15, 0-3, all, all] on 1; [all, 4-15, all, all] on 2");
}

// Row-parallel: by its inputs, so that the workers' results are to be added.
TEST(FreeCut, DividesInputsIntoPartialSums) {
  const Model m = model();
  const auto cut1 = cut(file(R"({"fc1": {"0": "0-4,9", "2": "5-8,10,11"},
                                 "fc2": {"0": {"inputs": "0-4,9"}, "2": {"inputs": "5-8,10-11"}},
                                 "relu2": {"1": "all"}})"));
  EXPECT_EQ(iterations(m, cut1, "fc2", 0), "[all, all, 0-4,9]");
  EXPECT_EQ(iterations(m, cut1, "fc2", 2), "[all, all, 5-8,10-11]");
  const ops::Layout sums = layout(cut1, "fc2");
  EXPECT_EQ(ops::describe(sums), "partial sums on 0,2");
  EXPECT_EQ(sums.find(0)->slices,
            std::vector<ops::IndexSet>{ops::IndexSet::of({0, 1, 2, 3, 4, 9})});
  for (const Route& route : connect(m, cut1.division))  // what comes in lies where it is needed
    EXPECT_NE(m.value(route.value).name, "relu1.output");
}

TEST(FreeCut, DividesByWholeChannelsWhatIsFlattened) {
  const Model lenet = make_zoo_model("lenet5");
  const auto cut1 = cut(lenet, file(R"({"flatten": {"0": "0-49,100-399", "1": "50-99"}})"));
  EXPECT_EQ(ops::describe(layout(lenet, cut1, "flatten")), "split on axis 1 over 0,1");
  EXPECT_EQ(ops::to_string(layout(lenet, cut1, "flatten").find(1)->box), "[all, 50-99]");
  const auto error = kerf::tests::error_of(
      [&] { cut(lenet, file(R"({"flatten": {"0": "0-36", "1": "37-399"}})")); });
  ASSERT_TRUE(error) << "half a channel was accepted";
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->what(), HasSubstr("shares.json: node flatten: worker 0: Flatten cannot "
                                       "compute [all, 0-36] of its output by itself"));
  EXPECT_THAT(error->what(), HasSubstr("divide it by whole channels"));
}

struct Mistake {
  std::string shares;
  std::string complaint;
};
class FreeCutMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(FreeCutMistake, IsNamedWithFileAndNode) {
  const auto error = kerf::tests::error_of([&] { cut(GetParam().shares); });
  ASSERT_TRUE(error) << "not refused";
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->what(), HasSubstr(GetParam().complaint));
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
                "shares.json: node fc1: workers 0 and 1 both have outputs 5; give it to one"},
        Mistake{file(R"({"fc1": {"0": "0-4", "1": "6-11"}})"),
                "shares.json: node fc1: nobody has 5"},
        Mistake{file(R"({"fc1": {"0": "0-4", "1": "5-12"}})"),
                "shares.json: node fc1: worker 1: index 12 is beyond the last, 11"},
        Mistake{file(R"({"fc1": {"3": "all"}})"), "shares.json: node fc1: \"3\" is not a worker"},
        Mistake{file(R"({"fc1": {"-1": "all"}})"), "\"-1\" is not a worker"},
        Mistake{file(R"({"fc1": {"one": "all"}})"), "\"one\" is not a worker"},
        Mistake{file(R"({"fc1": {"0": {}, "1": "all"}})"),
                "worker 0: it names no axis; give it \"all\", or a set of samples or outputs"},
        Mistake{file(R"({"fc1": {"1": "all", "01": "all"}})"), "worker 1 is there twice"},
        Mistake{file(R"({"fc1": {}})"), "shares.json: node fc1: must be an object"},
        Mistake{file(R"({"fc1": {"0": 5}})"), "worker 0: indices are text"},
        Mistake{file(R"({"fc1": {"0": "0-x"}})"), "shares.json: node fc1, worker 0"},
        Mistake{file(R"({"fc1": {"0": "none"}})"), "shares.json: node fc1: nobody has all"},
        Mistake{file(R"({"loss": {"0": "0-1"}})"), "has no features to divide"},
        Mistake{file(R"({"fc1": {"0": {"columns": "0-5"}, "1": {"outputs": "6-11"}}})"),
                "shares.json: node fc1: worker 0: Gemm has no axis \"columns\"; it has samples, "
                "outputs, inputs"},
        Mistake{
            file(R"({"fc1": {"0": {"samples": "0-7"}, "1": {"samples": "9-15"}}})"),
            "shares.json: node fc1: nobody has 8 of its samples; give every index from 0 to 15"},
        Mistake{file(R"({"fc1": {"0": {"samples": "0-7"}, "1": {"samples": "8-16"}}})"),
                "shares.json: node fc1: worker 1: index 16 is beyond the last, 15"},
        Mistake{file(R"({"fc1": {"0": {"inputs": "0-9"}, "1": {"inputs": "9-19"}}})"),
                "shares.json: node fc1: workers 0 and 1 both have inputs 9"},
        Mistake{file(R"({"fc1": {"0": {"samples": "0-7"}, "1": {"outputs": "0-5"}}})"),
                "workers 0 and 1 both have samples 0-7, outputs 0-5"},
        Mistake{file(R"({"fc1": {"0": {"samples": "0-7", "outputs": "0-5"},
                                 "1": {"samples": "8-15", "outputs": "6-11"}}})"),
                "shares.json: node fc1: no part holds"},
        Mistake{file(R"({"fc1": {"0": {"samples": 7}}})"), "worker 0: indices are text"},
        Mistake{file(R"({"fc1": {"0": {"inputs": "3-1"}}})"), "shares.json: node fc1, worker 0"},
        Mistake{file(R"({"loss": {"0": {"features": "0-4"}, "1": {"features": "5-9"}}})"),
                "shares.json: node loss: worker 0"}));

}  // namespace
}  // namespace kerf::partitioner
