// Parameters: where their homes are, and what travels to and from them. Every summand of a gradient
// reaches exactly one home, every element that is read comes from exactly one.
#include "partitioner/homes.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>

#include "partitioner/builder.h"
#include "partitioner/sources.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/cover.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Box interval(int64_t begin, int64_t end) { return {{IndexSet::range(begin, end)}}; }

// ---- find_homes

TEST(Homes, OneReaderIsTheHomeOfWhatItReads) {
  const Layout homes =
      find_homes({{3, interval(0, 4), {0, 1}}}, {interval(0, 4), interval(0, 4)}, {10});
  EXPECT_EQ(homes, (Layout{{{3, interval(0, 4)}}}));
}

TEST(Homes, ReplicasThatMakeEverySummandAreAllHomes) {
  const Box whole = Box::whole(2);
  const Layout homes = find_homes({{1, whole, {0, 1}}, {4, whole, {0, 1}}}, {whole, whole}, {6, 4});
  EXPECT_EQ(homes, Layout::replicated({1, 4}, 2));
}

TEST(Homes, WithoutSummandsEveryReaderIsAHome) {
  const Layout homes = find_homes({{0, interval(0, 6), {}}, {2, interval(4, 10), {}}}, {}, {10});
  EXPECT_EQ(homes, (Layout{{{0, interval(0, 6)}, {2, interval(4, 10)}}}));
}

TEST(Homes, WhatSeveralHavePartialSumsOfIsDividedAlongItsLongestAxis) {
  const Box whole = Box::whole(2);
  const Layout homes = find_homes({{0, whole, {0}}, {1, whole, {1}}, {2, whole, {2}}},
                                  {whole, whole, whole}, {4, 10});
  EXPECT_EQ(homes, Layout::split({0, 1, 2}, 2, 1, ops::split_evenly(10, 3)));
}

TEST(Homes, AReaderMayBeNoHomeWhereThereAreMoreOfThemThanIndices) {
  const Box whole = Box::whole(1);
  const Layout homes =
      find_homes({{0, whole, {0}}, {1, whole, {1}}, {2, whole, {2}}}, {whole, whole, whole}, {2});
  EXPECT_EQ(homes, (Layout{{{0, interval(0, 1)}, {1, interval(1, 2)}}}));
}

TEST(Homes, OverlappingNeedsDivideTheOverlapOnly) {
  const Layout homes = find_homes({{0, interval(0, 6), {0}}, {1, interval(4, 10), {1}}},
                                  {interval(0, 6), interval(4, 10)}, {10});
  EXPECT_EQ(homes, (Layout{{{0, interval(0, 5)}, {1, interval(5, 10)}}}));
}

TEST(Homes, NeedsThatNobodyShares) {
  const Layout homes = find_homes({{0, interval(0, 3), {0}}, {1, interval(3, 10), {1}}},
                                  {interval(0, 3), interval(3, 10)}, {10});
  EXPECT_EQ(homes, (Layout{{{0, interval(0, 3)}, {1, interval(3, 10)}}}));
}

TEST(Homes, WhereTheyWouldBeNoBoxesThereIsOne) {
  // Part 0 would keep an L: all but what part 1 takes of the corner that both read.
  const Box corner{{IndexSet::range(0, 2), IndexSet::range(0, 2)}};
  const Layout homes =
      find_homes({{0, Box::whole(2), {0}}, {1, corner, {1}}}, {Box::whole(2), corner}, {4, 4});
  EXPECT_EQ(homes, Layout::whole(0, 2));
}

TEST(Homes, AScalarHasOne) {
  const Box scalar = Box::whole(0);
  EXPECT_EQ(find_homes({{2, scalar, {0}}, {5, scalar, {1}}}, {scalar, scalar}, {}),
            Layout::whole(2, 0));
}

// ---- routes of parameters

// The boxes of one contribution that reach the home on `part`: its own, or what comes by routes.
std::vector<Box> reaching(const Sources& sources, const std::vector<Route>& routes, ValueId value,
                          const Contribution& contribution, const Box& made,
                          const std::set<int>& makers, int part) {
  std::vector<Box> boxes;
  const ops::Shape shape = sources.shape(value);
  const auto add = [&](const Box& box) {
    if (!box.empty()) boxes.push_back(ops::normalized(box, shape));
  };
  if (makers.contains(part)) add(ops::intersect(made, sources.held(value, part)->box));
  for (const Route& route : routes) {
    if (route.value != value || !route.gradient || route.to != part) continue;
    for (const Piece& piece : route.pieces)
      for (const Contribution& each : piece.contributions) {
        if (!(each == contribution)) continue;
        EXPECT_TRUE(makers.contains(route.from)) << "sent by one that does not make it";
        add(ops::intersect(made, piece.box));
      }
  }
  return boxes;
}

// Reduce: every element of each contribution reaches exactly one home once, or each replica of it.
void expect_summed_once(const Sources& sources, const std::vector<Route>& routes, ValueId value) {
  const auto& homes = sources.shares(value);
  std::set<std::tuple<NodeId, int, int>> seen;
  for (const Computation& made : sources.computations())
    for (const Use& use : sources.model().uses(value)) {
      if (use.node != made.node || !seen.insert({use.node, use.input, made.box_number}).second)
        continue;
      const Box& box = made.inputs[static_cast<size_t>(use.input)];
      if (box.empty()) continue;
      std::set<int> makers;
      for (const Computation& other : sources.computations())
        if (other.node == made.node && other.box_number == made.box_number)
          makers.insert(other.part);
      std::vector<Box> reached;
      for (size_t i = 0; i < homes.size(); ++i) {
        const auto boxes =
            reaching(sources, routes, value, {use, made.box_number}, box, makers, homes[i].part);
        const Box wanted = ops::normalized(ops::intersect(box, homes[i].box), sources.shape(value));
        expect_exact_cover(boxes, wanted, sources.shape(value));
        bool replica = false;
        for (size_t j = 0; j < i; ++j) replica = replica || homes[j].box == homes[i].box;
        if (!replica) reached.insert(reached.end(), boxes.begin(), boxes.end());
      }
      expect_exact_cover(reached, box, sources.shape(value));
    }
}

void expect_homes_and_routes(const Model& model, const Division& division) {
  const Sources sources(model, division);
  const auto routes = connect(model, division);
  for (const ValueId value : model.parameters()) {
    SCOPED_TRACE(model.value(value).name + ", " + ops::describe({.shares = sources.shares(value)}));
    EXPECT_EQ(ops::check_layout({.shares = sources.shares(value)}, sources.shape(value)), "");
    expect_summed_once(sources, routes, value);
    expect_brought_once(sources, routes, value);
  }
}

// x -> a -> b -> loss, where a and b have one weight.
Model tied_model() {
  Model model("tied");
  const ValueId x = model.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 4}});
  const ValueId w = model.add_parameter("w", {ops::DType::kFloat32, {4, 4}}, {});
  const ValueId label = model.add_label("label", {ops::DType::kInt64, {ops::kBatch}});
  const auto output = [&](NodeId node) { return model.node(node).outputs[0]; };
  const ValueId a = output(model.add_node("a", "Gemm", {}, {x, w}));
  const ValueId b = output(model.add_node("b", "Gemm", {}, {a, w}));
  model.add_node("loss", "SoftmaxCrossEntropyLoss", {}, {b, label});
  return model;
}

class Parameters : public ::testing::TestWithParam<int> {
 protected:
  Random random_{static_cast<Random::result_type>(GetParam())};
};

TEST_P(Parameters, OfRandomDivisionsAreSummedAndPublishedOnce) {
  const Model model = random_model(random_);
  expect_homes_and_routes(model, random_division(model, 1 + GetParam() % 5, 6, random_));
}

TEST_P(Parameters, ThatAreTiedAreSummedAndPublishedOnce) {
  const Model model = tied_model();
  expect_homes_and_routes(model, random_division(model, 2 + GetParam() % 4, 6, random_));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Parameters, ::testing::Range(1, 31));

class BatchDivision : public ::testing::TestWithParam<int> {};

// A reduce-scatter and an all-gather: (R - 1) / R of each tensor to the homes and as much back.
TEST_P(BatchDivision, SendsTwiceAllButOwnSharesOfAParameter) {
  const int64_t parts = GetParam();
  const Model model = make_zoo_model("mlp", {{60, 60, 60}});
  Division division{.nodes = {}, .largest = 2 * parts};
  std::vector<int> all;
  for (int part = 0; part < parts; ++part) all.push_back(part);
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes.push_back(Layout::split(all,
                                           static_cast<int>(model.op(node).space().axes.size()), 0,
                                           ops::split_evenly(division.largest, GetParam())));
  expect_homes_and_routes(model, division);
  std::map<std::tuple<ValueId, bool, int>, size_t> sent;  // bytes by value, direction, sender
  for (const Route& route : connect(model, division)) {
    ASSERT_EQ(kind_of(model, division, route), RouteKind::kWeight);
    EXPECT_TRUE(is_of_step(model, route));
    sent[{route.value, route.gradient, route.from}] += message_bytes(model, route, 1);
  }
  EXPECT_EQ(sent.size(), model.parameters().size() * 2 * all.size());
  for (const auto& [key, bytes] : sent) {
    const ops::Shape& shape = model.value(std::get<0>(key)).spec.shape;
    EXPECT_EQ(bytes, static_cast<size_t>(shape.elements() * (parts - 1) / parts) * 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, BatchDivision, ::testing::Range(2, 7));

// One weight on two parts: each is the home of half of it.
TEST(TiedWeights, OfTwoPartsAreReducedToHalvesAndPublished) {
  const Model model = tied_model();
  Division division;
  for (const int part : {0, 1, 1})
    division.nodes.push_back(
        whole_division(model, static_cast<NodeId>(division.nodes.size()), part));
  const ValueId w = model.find_value("w");
  const Sources sources(model, division);
  EXPECT_EQ(ops::describe({.shares = sources.shares(w)}), "split on axis 0 over 0,1");
  EXPECT_TRUE(sources.has_read_copy(w, 0));
  EXPECT_TRUE(sources.has_read_copy(w, 1));
  const Box halves[] = {{{IndexSet::range(0, 2), IndexSet::all()}},
                        {{IndexSet::range(2, 4), IndexSet::all()}}};
  std::vector<Route> routes = connect(model, division);
  std::erase_if(routes, [&](const Route& route) { return route.value != w; });
  for (Route& route : routes) route.id = 0;
  EXPECT_THAT(routes, ElementsAre(Route{0, w, false, 1, 0, {{halves[1]}}},
                                  Route{0, w, false, 0, 1, {{halves[0]}}},
                                  Route{0, w, true, 1, 0, {{halves[0], {{{1, 1}, 0}}}}},
                                  Route{0, w, true, 0, 1, {{halves[1], {{{0, 1}, 0}}}}}));
}

TEST(TiedWeights, OfOnePartStayThere) {
  const Model model = tied_model();
  Division division;
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes.push_back(whole_division(model, node, 0));
  EXPECT_THAT(connect(model, division), IsEmpty());
  EXPECT_FALSE(Sources(model, division).has_read_copy(model.find_value("w"), 0));
}

}  // namespace
}  // namespace kerf::partitioner
