// Every pair of layouts that a producer may have and its consumer may want: what is inserted, how
// many bytes it moves each way, and that the two ways are each other's adjoint.
//
//   producer, consumer: whole on one part, replicated, or an axis divided over all p of them;
//   "inputs" divided leaves partial sums, and a product divided by "outputs" reads all of its input
//
// Bytes are in shares of the tensor, A/p each. A consumer that others repeat computes the same on
// every part, so that its gradient is there already. Partial sums are added up before anybody reads
// them, whatever reads them.
#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "partitioner/builder.h"
#include "partitioner/connector.h"
#include "partitioner/sums.h"
#include "tests/partitioner/crossing.h"

namespace kerf::partitioner {
namespace {

using ops::IndexSet;
using ops::Layout;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kExtent = 24;  // samples, features, rows: all of them, over 2, 3, 4 and 6 parts

struct Pair {
  friend std::ostream& operator<<(std::ostream& to, const Pair& pair) {
    return to << pair.reader << " of " << pair.producer << ": " << pair.consumer;
  }

  std::string name;
  std::string reader;    // operator
  std::string producer;  // "whole 0", "replicated", "samples", "outputs cyclic"
  std::string consumer;
  int64_t (*forward)(int64_t p);  // shares of the tensor
  int64_t (*backward)(int64_t p);
  std::string inserted;  // forward; backward; a list with commas each
};

int64_t none(int64_t) { return 0; }
int64_t all(int64_t p) { return p; }                           // A
int64_t all_but_one(int64_t p) { return p - 1; }               // A (p - 1) / p
int64_t to_each_other(int64_t p) { return p * (p - 1); }       // A (p - 1)
int64_t there_and_back(int64_t p) { return 2 * p * (p - 1); }  // 2 A (p - 1)

// image -- make -- read -- (flatten) -- scores -- loss; `make` and `read` are products of matrices,
// convolutions of 3 x 3 or element-wise. The value between them is make.output.
Model chain(const std::string& reader) {
  Builder b("pair");
  const bool images = reader == "Conv" || reader == "MaxPool" || reader == "image Relu";
  const ConvOptions same{.channels = kExtent, .kernel = {3, 3}, .pad = {1, 1}};
  ValueId x;
  if (images) {
    x = b.conv(b.input("x", {ops::kBatch, 3, kExtent, 4}), same, "make");
    x = reader == "Conv"      ? b.conv(x, same, "read")
        : reader == "MaxPool" ? b.max_pool(x, 2, 2, "read")
                              : b.relu(x, "read");
    x = b.flatten(x, "flatten");
  } else {
    x = b.gemm(b.input("x", {ops::kBatch, kExtent}), kExtent, "make");
    x = reader == "Gemm" ? b.gemm(x, kExtent, "read") : b.relu(x, "read");
  }
  b.loss(b.gemm(x, 5, "scores"));
  return b.build();
}

// Every p-th index, one of them moved on: boxes of scattered indices, and of unequal sizes.
std::vector<IndexSet> scattered(int64_t extent, int parts) {
  std::vector<std::vector<int64_t>> lists(static_cast<size_t>(parts));
  for (int64_t i = 0; i < extent; ++i)
    lists[static_cast<size_t>(i == 0 ? 1 : i % parts)].push_back(i);
  std::vector<IndexSet> sets;
  for (const std::vector<int64_t>& list : lists) sets.push_back(IndexSet::of(list));
  return sets;
}

Layout divided(const Model& model, NodeId node, const std::string& how, int parts) {
  std::istringstream words(how);
  std::string what, more;
  words >> what >> more;
  const ops::IterationSpace& space = model.op(node).space();
  const int rank = static_cast<int>(space.axes.size());
  if (what == "whole") return Layout::whole(std::stoi(more), rank);
  std::vector<int> everybody;
  for (int part = 0; part < parts; ++part) everybody.push_back(part);
  if (what == "replicated") return Layout::replicated(everybody, rank);
  // An element-wise operator knows no rows.
  const int axis = space.find(what == "rows" && space.find(what) < 0 ? "axis 2" : what);
  EXPECT_GE(axis, 0) << what;
  const int64_t extent = std::max(space.axes[static_cast<size_t>(axis)].extent, int64_t{0});
  const int64_t indices = extent == 0 ? kExtent : extent;
  return Layout::split(
      everybody, rank, axis,
      more == "scattered" ? scattered(indices, parts) : ops::split_evenly(indices, parts));
}

Division division_of_pair(const Model& model, const Pair& pair, int parts) {
  Division division{.nodes = {}, .largest = kExtent};
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes.push_back(whole_division(model, node, 0));
  const auto divide = [&](const char* name, const std::string& how) {
    const NodeId node = model.find_node(name);
    division.nodes[static_cast<size_t>(node)] = divided(model, node, how, parts);
  };
  divide("make", pair.producer);
  divide("read", pair.consumer);
  return division;
}

class EveryPair : public ::testing::TestWithParam<Pair> {
 protected:
  struct Moved {
    int64_t bytes = 0;
    std::set<std::string> inserted;
    std::set<std::pair<int, int>> ends;
  };
  Moved moved(const Model& model, const Division& division, bool gradient) {
    const Sources sources(model, division);
    const Sums sums(sources);
    Moved moved;
    for (const Route& route : connect(sources)) {
      if (route.gradient != gradient || value_name(model, route) != "make.output") continue;
      moved.bytes += static_cast<int64_t>(message_bytes(model, route, kExtent));
      moved.inserted.insert(connector_words(sums, route));
      if (route.leg == Leg::kDirect) {
        EXPECT_TRUE(moved.ends.insert({route.from, route.to}).second) << "one bridge for each pair";
      }
    }
    return moved;
  }
};

TEST_P(EveryPair, InsertsAndMovesWhatTheTableSays) {
  const Pair& pair = GetParam();
  const Model model = chain(pair.reader);
  const ops::Shape& shape = model.value(model.find_value("make.output")).spec.shape;
  int64_t bytes = kExtent * 4;
  for (int axis = 1; axis < shape.rank(); ++axis) bytes *= shape[axis];
  for (const int p : {2, 3, 4, 6}) {
    SCOPED_TRACE(format("{} parts", p));
    const Division division = division_of_pair(model, pair, p);
    const Moved forward = moved(model, division, false);
    const Moved backward = moved(model, division, true);
    EXPECT_EQ(forward.bytes, bytes / p * pair.forward(p));
    EXPECT_EQ(backward.bytes, bytes / p * pair.backward(p));
    if (p == 2) continue;  // which have no use for sums in slices
    EXPECT_EQ(
        format("{}; {}", fmt::join(forward.inserted, ", "), fmt::join(backward.inserted, ", ")),
        pair.inserted);
  }
}

TEST_P(EveryPair, IsAdjoint) {
  Random random(5);
  const Model model = chain(GetParam().reader);
  for (const int p : {2, 3, 4, 6})
    expect_adjoint(model, division_of_pair(model, GetParam(), p), random, kExtent);
}

INSTANTIATE_TEST_SUITE_P(
    Table, EveryPair,
    ::testing::Values(
        Pair{"WholeToWhole", "Relu", "whole 0", "whole 1", all, all, "bridge; bridge"},
        Pair{"WholeToAllOfItsInput", "Gemm", "whole 0", "outputs", to_each_other, to_each_other,
             "bridge; bridge -> sum"},
        Pair{"WholeToRepeated", "Relu", "whole 0", "replicated", to_each_other, none, "bridge; "},
        Pair{"WholeToSamples", "Relu", "whole 0", "samples", all_but_one, all_but_one,
             "slice -> bridge; bridge -> concat"},
        Pair{"WholeToFeatures", "Relu", "whole 0", "features", all_but_one, all_but_one,
             "slice -> bridge; bridge -> concat"},
        Pair{"WholeToInputs", "Gemm", "whole 0", "inputs", all_but_one, all_but_one,
             "slice -> bridge; bridge -> concat"},
        Pair{"SamplesToWhole", "Relu", "samples", "whole 0", all_but_one, all_but_one,
             "bridge -> concat; slice -> bridge"},
        Pair{"FeaturesToWhole", "Relu", "outputs", "whole 0", all_but_one, all_but_one,
             "bridge -> concat; slice -> bridge"},
        Pair{"SumsToWhole", "Relu", "inputs", "whole 0", to_each_other, to_each_other,
             "bridge -> sum; bridge"},
        Pair{"ReplicatedToRepeated", "Relu", "replicated", "replicated", none, none, "; "},
        Pair{"ReplicatedToAllOfItsInput", "Gemm", "replicated", "outputs", none, there_and_back,
             "; bridge -> concat (all-gather), slice -> bridge -> sum (reduce-scatter)"},
        Pair{"ReplicatedToSamples", "Relu", "replicated", "samples", none, to_each_other,
             "; bridge -> concat"},
        Pair{"ReplicatedToFeatures", "Relu", "replicated", "features", none, to_each_other,
             "; bridge -> concat"},
        Pair{"ReplicatedToInputs", "Gemm", "replicated", "inputs", none, to_each_other,
             "; bridge -> concat"},
        Pair{"SamplesToAllOfTheirInput", "Gemm", "samples", "outputs", to_each_other, to_each_other,
             "bridge -> concat; slice -> bridge -> sum"},
        Pair{"FeaturesToAllOfTheirInput", "Gemm", "outputs", "outputs", to_each_other,
             to_each_other, "bridge -> concat; slice -> bridge -> sum"},
        Pair{"SamplesToRepeated", "Relu", "samples", "replicated", to_each_other, none,
             "bridge -> concat; "},
        Pair{"FeaturesToRepeated", "Relu", "outputs", "replicated", to_each_other, none,
             "bridge -> concat; "},
        Pair{"SamplesToSamples", "Gemm", "samples", "samples", none, none, "; "},
        Pair{"SamplesToFeatures", "Relu", "samples", "features", all_but_one, all_but_one,
             "slice -> bridge -> concat; slice -> bridge -> concat"},
        Pair{"FeaturesToSamples", "Relu", "outputs", "samples", all_but_one, all_but_one,
             "slice -> bridge -> concat; slice -> bridge -> concat"},
        Pair{"SamplesToRows", "image Relu", "samples", "rows", all_but_one, all_but_one,
             "slice -> bridge -> concat; slice -> bridge -> concat"},
        Pair{"RowsToSamples", "image Relu", "rows", "samples", all_but_one, all_but_one,
             "slice -> bridge -> concat; slice -> bridge -> concat"},
        Pair{"FeaturesToRows", "image Relu", "outputs", "rows", all_but_one, all_but_one,
             "slice -> bridge -> concat; slice -> bridge -> concat"},
        Pair{"RowsToFeatures", "image Relu", "rows", "features", all_but_one, all_but_one,
             "slice -> bridge -> concat; slice -> bridge -> concat"},
        Pair{"FeaturesToTheSame", "Relu", "outputs", "features", none, none, "; "},
        Pair{"FeaturesToTheSameInputs", "Gemm", "outputs", "inputs", none, none, "; "},
        Pair{"ScatteredToTheSame", "Relu", "outputs scattered", "features scattered", none, none,
             "; "},
        Pair{"SumsToRepeated", "Relu", "inputs", "replicated", there_and_back, none,
             "bridge -> concat (all-gather), slice -> bridge -> sum (reduce-scatter); "},
        Pair{"SumsToSamples", "Relu", "inputs", "samples", to_each_other, to_each_other,
             "slice -> bridge -> sum; bridge -> concat"},
        Pair{"SumsToFeatures", "Relu", "inputs", "features", to_each_other, to_each_other,
             "slice -> bridge -> sum; bridge -> concat"},
        Pair{"SumsToInputs", "Gemm", "inputs", "inputs", to_each_other, to_each_other,
             "slice -> bridge -> sum; bridge -> concat"},
        Pair{"RowsWithoutAHalo", "MaxPool", "rows", "rows", none, none, "; "}),
    [](const auto& each) { return each.param.name; });

// What is moved between other index sets is counted here index by index.
TEST(OtherSets, MoveTheShareThatDiffers) {
  const Pair pair{"", "Relu", "outputs", "features scattered", none, none, ""};
  const Model model = chain(pair.reader);
  for (const int p : {2, 3, 4, 6}) {
    const Division division = division_of_pair(model, pair, p);
    const auto from = ops::split_evenly(kExtent, p);
    const auto to = scattered(kExtent, p);
    int64_t moved = 0;
    for (size_t part = 0; part < to.size(); ++part)
      for (int64_t i = 0; i < kExtent; ++i)
        moved += to[part].contains(i) && !from[part].contains(i) ? 1 : 0;
    ASSERT_GT(moved, 0);
    int64_t forward = 0;
    int64_t backward = 0;
    for (const Route& route : connect(model, division))
      if (value_name(model, route) == "make.output")
        (route.gradient ? backward : forward) +=
            static_cast<int64_t>(message_bytes(model, route, kExtent));
    EXPECT_EQ(forward, moved * kExtent * 4);
    EXPECT_EQ(backward, forward);
    Random random(5);
    expect_adjoint(model, division, random, kExtent);
  }
}

// Windows of three rows at a step of one: a row to and from each neighbour, and added back.
TEST(Halo, IsTheRowsAtTheBoundaries) {
  const Pair pair{"", "Conv", "rows", "rows", none, none, ""};
  const Model model = chain(pair.reader);
  for (const int p : {2, 3, 4, 6}) {
    const Division division = division_of_pair(model, pair, p);
    const Sources sources(model, division);
    const Sums sums(sources);
    const int64_t row = kExtent * kExtent * 4 * 4;  // samples, channels, columns, bytes
    int64_t forward = 0;
    int64_t backward = 0;
    for (const Route& route : connect(sources)) {
      if (value_name(model, route) != "make.output") continue;
      EXPECT_EQ(std::abs(route.from - route.to), 1) << "neighbours only";
      EXPECT_EQ(message_bytes(model, route, kExtent), static_cast<size_t>(row));
      EXPECT_EQ(connector_words(sums, route),
                route.gradient ? "slice -> bridge -> sum" : "slice -> bridge -> concat");
      ++(route.gradient ? backward : forward);
    }
    EXPECT_EQ(forward, 2 * (p - 1));
    EXPECT_EQ(backward, 2 * (p - 1));
    Random random(5);
    expect_adjoint(model, division, random, kExtent);
  }
}

}  // namespace
}  // namespace kerf::partitioner
