// Connectors: exactly what is missing travels, once, and message counts are the known formulas.
#include "partitioner/connector.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "partitioner/builder.h"
#include "partitioner/connector_words.h"
#include "partitioner/cut.h"
#include "partitioner/disjoint_boxes.h"
#include "partitioner/sums.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/cover.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;
using ::testing::IsEmpty;

// mlp with `layers` Gemms of `width` features.
Model mlp_of(int layers, int64_t width = 20) {
  return make_zoo_model("mlp", {std::vector<int64_t>(static_cast<size_t>(layers) + 1, width)});
}

struct Counts {
  int layers = 0;   // messages per micro-batch between layers, both ways
  int loss = 0;     // to and from the loss
  int weights = 0;  // once a step
};
Counts count(const Model& model, const Division& division) {
  Counts counts;
  for (const Route& route : connect(model, division)) {
    const RouteKind kind = kind_of(model, division, route);
    ++(kind == RouteKind::kLoss     ? counts.loss
       : kind == RouteKind::kWeight ? counts.weights
                                    : counts.layers);
  }
  return counts;
}

class MessageCounts : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int layers() const { return std::get<0>(GetParam()); }
  int parts() const { return std::get<1>(GetParam()); }
};

TEST_P(MessageCounts, LayerCutSendsOneMessagePerBoundaryEachWay) {
  const Model model = mlp_of(layers());
  Division division;
  int layer = -1;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    if (model.node(node).op == "Gemm") ++layer;
    division.nodes.push_back(whole_division(model, node, layer));
  }
  const Counts counts = count(model, division);
  EXPECT_EQ(counts.layers, (layers() - 1) * 2);
  EXPECT_EQ(counts.loss, 0);
  EXPECT_EQ(counts.weights, 0);
}

TEST_P(MessageCounts, FeatureCutGathersAndScattersAmongAll) {
  const Model model = mlp_of(layers());
  PlanRequest request;
  request.pairs = false;
  request.workers = parts();
  const Counts counts = count(model, cut_feature(model, request).division);
  EXPECT_EQ(counts.layers, (layers() - 1) * parts() * (parts() - 1) * 2);
  EXPECT_EQ(counts.loss, parts() * (parts() - 1) * 2);  // to samples
  EXPECT_EQ(counts.weights, 0);
}

TEST_P(MessageCounts, HybridCutOfOneLayerPerStageSendsAllToAll) {
  const Model model = mlp_of(layers());
  PlanRequest request;
  request.workers = layers() * parts();
  request.stages = layers();
  request.cut = Cut::kHybrid;
  request.pairs = false;
  const Plan plan = std::get<Plan>(make_plan(model, request, *hold_everything()));
  const Counts counts = count(model, plan.division);
  EXPECT_EQ(counts.layers, (layers() - 1) * parts() * parts() * 2);
  EXPECT_EQ(counts.loss, parts() * (parts() - 1) * 2);  // to samples
  EXPECT_EQ(counts.weights, 0);
}

INSTANTIATE_TEST_SUITE_P(LayersAndParts, MessageCounts,
                         ::testing::Combine(::testing::Range(2, 7), ::testing::Range(2, 6)));

class RandomCuts : public ::testing::TestWithParam<int> {
 protected:
  Random random_{static_cast<Random::result_type>(GetParam())};
  Model model_ = random_model(random_);
};

TEST_P(RandomCuts, BringEveryNeededElementExactlyOnce) {
  const Division division = random_division(model_, 4, 6, random_, {.partial_sums = false});
  const Sources sources(model_, division);
  const auto routes = connect(model_, division);
  for (ValueId value = 0; value < model_.values(); ++value) {
    const Role role = model_.value(value).role;
    if (role != Role::kActivation && role != Role::kParameter) continue;
    expect_brought_once(sources, routes, value);
  }
}

TEST_P(RandomCuts, HaveOneRoutePerValueDirectionSenderAndReceiver) {
  const auto routes = connect(model_, random_division(model_, 5, 4, random_));
  std::set<std::tuple<ValueId, bool, Leg, int, int>> seen;
  for (size_t i = 0; i < routes.size(); ++i) {
    const Route& route = routes[i];
    EXPECT_EQ(route.id, static_cast<int>(i));
    EXPECT_NE(route.from, route.to);
    EXPECT_FALSE(route.pieces.empty());
    EXPECT_TRUE(seen.insert({route.value, route.gradient, route.leg, route.from, route.to}).second);
  }
}

TEST_P(RandomCuts, NeverSendInputsOrLabels) {
  const Division division = random_division(model_, 5, 4, random_);
  for (const Route& route : connect(model_, division)) {
    const Role role = model_.value(route.value).role;
    EXPECT_TRUE(role == Role::kActivation || role == Role::kParameter);
    EXPECT_EQ(kind_of(model_, division, route) == RouteKind::kWeight, role == Role::kParameter);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCuts, ::testing::Range(1, 26));

// x -> a -> (b, c) -> d -> loss
struct Diamond {
  Diamond() {
    Builder builder("diamond");
    a = builder.gemm(builder.input("x", {ops::kBatch, 6}), 10, "a");
    b = builder.gemm(a, 10, "b");
    c = builder.relu(a, "c");
    d = builder.add(b, c, "d");
    builder.loss(d);
    model = builder.build();
    for (NodeId node = 0; node < model.nodes(); ++node)
      division.nodes.push_back(whole_division(model, node, 0));
  }
  // The producer divided so that the value has this layout.
  void on(ValueId value, const Layout& layout) {
    const NodeId node = model.value(value).producer;
    division.nodes[static_cast<size_t>(node)] =
        division_of(model, node, layout, division.largest).value();
  }
  std::vector<Route> of(ValueId value, bool gradient) const {
    std::vector<Route> routes;
    for (const Route& route : connect(model, division))
      if (route.value == value && route.gradient == gradient) routes.push_back(route);
    return routes;
  }

  std::string words(const Route& route) const {
    const Sources sources(model, division);
    return connector_words(Sums(sources), route);
  }

  Model model;
  ValueId a, b, c, d;
  Division division{.nodes = {}, .largest = 8};
};

TEST(Connect, AValueCrossesOnceHoweverManyReadItThere) {
  Diamond m;
  for (const ValueId value : {m.b, m.c, m.d}) m.on(value, Layout::whole(1, 2));
  ASSERT_EQ(m.of(m.a, false).size(), 1U);
  EXPECT_EQ(m.of(m.a, false)[0].pieces.size(), 1U);
}

TEST(Connect, WhoMakesTheWholeGradientSumsBeforeItSends) {
  Diamond m;
  for (const ValueId value : {m.b, m.c, m.d}) m.on(value, Layout::whole(1, 2));
  const auto routes = m.of(m.a, true);
  ASSERT_EQ(routes.size(), 1U);
  ASSERT_EQ(routes[0].pieces.size(), 1U);
  // Reverse model order: the Relu c comes after the Gemm b.
  const std::vector<Contribution> order = {{{2, 0}, 0}, {{1, 0}, 0}};
  EXPECT_EQ(routes[0].pieces[0].contributions, order);
}

TEST(Connect, FanOutToSeveralWorkersSendsToEach) {
  Diamond m;
  m.on(m.b, Layout::whole(1, 2));
  m.on(m.c, Layout::whole(2, 2));
  EXPECT_EQ(m.of(m.a, false).size(), 2U);
  EXPECT_EQ(m.of(m.a, true).size(), 2U);
}

TEST(Connect, OnlyTheSliceThatIsNeededTravels) {
  Diamond m;
  m.on(m.c, Layout::split({0, 1, 2}, 2, 1, ops::split_evenly(10, 3)));  // 4 + 3 + 3
  const auto routes = m.of(m.a, false);
  ASSERT_EQ(routes.size(), 2U);
  EXPECT_EQ(routes[0].pieces[0].box, (Box{{IndexSet::all(), IndexSet::range(4, 7)}}));
  EXPECT_EQ(message_bytes(m.model, routes[0], 8), 8U * 3 * 4);
  EXPECT_EQ(message_bytes(m.model, routes[0], 0), 0U);
  EXPECT_EQ(m.words(routes[0]), "slice -> bridge");
}

TEST(Connect, ReplicasServeThemselvesAndOthersAskTheFirst) {
  Diamond m;
  m.on(m.a, Layout::replicated({2, 1}, 2));
  m.on(m.b, Layout::whole(1, 2));
  const auto routes = m.of(m.a, false);  // c is on 0
  ASSERT_EQ(routes.size(), 1U);
  EXPECT_EQ(routes[0].from, 2);
  EXPECT_EQ(routes[0].to, 0);
  // Both replicas get the whole gradient: b's to 2, c's to 1 and 2 would be three tensors; so each
  // sums half of it, for which 1 lacks c's and 2 both, and gives it to the other.
  std::map<std::tuple<Leg, int, int>, size_t> bytes;
  for (const Route& route : m.of(m.a, true))
    bytes[{route.leg, route.from, route.to}] = message_bytes(m.model, route, 8);
  const size_t half = 8U * 10 * 4 / 2;
  EXPECT_THAT(bytes, ::testing::ElementsAre(std::pair(std::tuple(Leg::kReduceScatter, 0, 1), half),
                                            std::pair(std::tuple(Leg::kReduceScatter, 0, 2), half),
                                            std::pair(std::tuple(Leg::kReduceScatter, 1, 2), half),
                                            std::pair(std::tuple(Leg::kAllGather, 1, 2), half),
                                            std::pair(std::tuple(Leg::kAllGather, 2, 1), half)));
}

TEST(Connect, PartialSumsComeFromAllWhoHoldThem) {
  Diamond m;
  const NodeId node = m.model.find_node("b");
  const int inputs = m.model.op(node).space().find("inputs");
  m.division.nodes[static_cast<size_t>(node)] =
      Layout::split({1, 2}, 3, inputs, ops::split_evenly(10, 2));
  const auto routes = m.of(m.b, false);
  ASSERT_EQ(routes.size(), 2U);
  for (int box = 0; box < 2; ++box) {
    const Route& route = routes[static_cast<size_t>(box)];
    const Piece sum{Box::whole(2), {{{node, 0}, box}}};
    EXPECT_EQ(route.from, box + 1);
    EXPECT_EQ(route.pieces, std::vector<Piece>{sum});
    EXPECT_EQ(m.words(route), "bridge -> sum");
  }
  EXPECT_EQ(m.of(m.b, true).size(), 2U);  // the gradient goes to both
  // Each needs the half of a that it sums over.
  const auto read = m.of(m.a, false);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].pieces[0].box, (Box{{IndexSet::all(), IndexSet::range(0, 5)}}));
  EXPECT_EQ(read[1].pieces[0].box, (Box{{IndexSet::all(), IndexSet::range(5, 10)}}));
}

TEST(Connect, SamplesTravelToWhoComputesThem) {
  Diamond m;
  m.on(m.c, Layout::split({0, 1}, 2, 0, ops::split_evenly(8, 2)));
  const auto routes = m.of(m.a, false);
  ASSERT_EQ(routes.size(), 1U);
  EXPECT_EQ(routes[0].pieces[0].box, (Box{{IndexSet::range(4, 8), IndexSet::all()}}));
  EXPECT_EQ(message_bytes(m.model, routes[0], 8), 4U * 10 * 4);
  EXPECT_EQ(message_bytes(m.model, routes[0], 5), 1U * 10 * 4);  // of the fifth sample alone
  EXPECT_EQ(message_bytes(m.model, routes[0], 4), 0U);
}

TEST(Connect, InputsAreReadWhereTheyAreNeeded) {
  Diamond m;
  m.on(m.a, Layout::split({0, 1}, 2, 1, ops::split_evenly(10, 2)));
  const auto layouts = layouts_of(m.model, m.division);
  const auto on = [&](const char* name) {
    return ops::describe(layouts[static_cast<size_t>(m.model.find_value(name))]);
  };
  EXPECT_EQ(on("x"), "replicated on 0,1");
  EXPECT_EQ(on("label"), "whole on 0");
  EXPECT_EQ(on("a.weight"), "split on axis 0 over 0,1");
  EXPECT_EQ(on("b.weight"), "whole on 0");
}

std::string refusal(const Model& model, const Division& division) {
  try {
    computations(model, division);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "not refused";
}

TEST(Connect, ADivisionThatAnOperatorCannotHonourIsRefusedByName) {
  Builder b("scores");
  b.loss(b.softmax(b.gemm(b.input("x", {ops::kBatch, 6}), 10, "fc"), "softmax"));
  const Model model = b.build();
  Division division;
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes.push_back(whole_division(model, node, 0));
  EXPECT_EQ(refusal(model, division), "not refused");
  division.nodes[1] = Layout::split({0, 1}, 2, 1, ops::split_evenly(10, 2));
  EXPECT_EQ(refusal(model, division),
            "node softmax: Softmax cannot compute [all, 0-4]: it divides its features: Softmax "
            "sums along axis 1, which it needs whole; its iterations are split on axis 1 over 0,1");
}

// ---- many of them

Box box_of(std::vector<IndexSet> axes) { return {std::move(axes)}; }

TEST(DisjointBoxes, AreSeenWhereTheyFollowOneAnother) {
  const IndexSet all = IndexSet::all();
  const auto follow = [](const std::vector<Box>& boxes) {
    std::vector<const Box*> each;
    for (const Box& box : boxes) each.push_back(&box);
    return follow_one_another(each);
  };
  const auto rows = [&](int64_t begin, int64_t end) {
    return box_of({IndexSet::range(begin, end), all});
  };
  const auto columns = [&](int64_t begin, int64_t end) {
    return box_of({all, IndexSet::range(begin, end)});
  };
  EXPECT_TRUE(follow({}));
  EXPECT_TRUE(follow({Box::whole(2)}));
  EXPECT_TRUE(follow({rows(4, 6), rows(0, 2), rows(2, 4)}));
  EXPECT_TRUE(follow({columns(0, 3), columns(3, 5)}));
  EXPECT_TRUE(follow({rows(0, 4), box_of({IndexSet::none(), all}), rows(4, 8)}));
  EXPECT_FALSE(follow({rows(0, 4), rows(3, 6)}));
  EXPECT_FALSE(follow({rows(0, 4), rows(0, 4)}));
  EXPECT_FALSE(follow({rows(0, 4), columns(4, 8)}));
  EXPECT_FALSE(follow({rows(0, 8), rows(2, 4), rows(4, 6)}));
  EXPECT_FALSE(follow({box_of({IndexSet::of({0, 2}), all}), rows(1, 2)}))
      << "nothing in common, which takes another look";
}

// What was found for one route serves others: in whatever order they are asked about.
TEST(ConnectorWords, AreThoseOfEachRouteByItself) {
  for (const Cut cut : {Cut::kFeature, Cut::kBatch}) {
    PlanRequest request;
    request.cut = cut;
    request.workers = 5;
    const Model model = model_for(mlp_of(3, 24), request);
    const Sources sources(model, cut == Cut::kFeature ? cut_feature(model, request).division
                                                      : cut_batch(model, request).division);
    const Sums sums(sources);
    std::vector<Route> routes = connect(sums);
    ASSERT_FALSE(routes.empty());
    std::set<std::string> all;
    Random random(7);
    for (int order = 0; order < 3; ++order) {
      ConnectorWords words(sums);
      for (const Route& route : routes) {
        EXPECT_EQ(words.of(route), connector_words(sums, route));
        all.insert(words.of(route));
      }
      std::shuffle(routes.begin(), routes.end(), random);
    }
    EXPECT_GT(all.size(), 1U);
  }
}

}  // namespace
}  // namespace kerf::partitioner
