// Connectors: exactly what is missing travels, once, and message counts are the known formulas.
#include "partitioner/connector.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/sources.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;
using ::testing::HasSubstr;

// mlp with `layers` Gemms of `width` features.
Model mlp_of(int layers, int64_t width = 20) {
  return make_zoo_model("mlp", {std::vector<int64_t>(static_cast<size_t>(layers) + 1, width)});
}

struct Counts {
  int layers = 0;  // messages per micro-batch between layers, both ways
  int loss = 0;    // to and from the loss
};
Counts count(const Model& model, const std::vector<Layout>& layouts) {
  Counts counts;
  for (const Route& route : connect(model, layouts))
    ++(kind_of(model, layouts, route) == RouteKind::kLoss ? counts.loss : counts.layers);
  return counts;
}

class MessageCounts : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int layers() const { return std::get<0>(GetParam()); }
  int parts() const { return std::get<1>(GetParam()); }
};

TEST_P(MessageCounts, LayerCutSendsOneMessagePerBoundaryEachWay) {
  const Model model = mlp_of(layers());
  std::vector<Layout> layouts(static_cast<size_t>(model.values()));
  int layer = -1;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    if (model.node(node).op == "Gemm") ++layer;
    const ValueId output = model.node(node).outputs[0];
    layouts[static_cast<size_t>(output)] =
        Layout::whole(layer, model.value(output).spec.shape.rank());
  }
  EXPECT_EQ(count(model, layouts).layers, (layers() - 1) * 2);
  EXPECT_EQ(count(model, layouts).loss, 0);
}

TEST_P(MessageCounts, FeatureCutGathersAndScattersAmongAll) {
  const Model model = mlp_of(layers());
  PlanRequest request;
  request.workers = parts();
  const auto layouts = cut_feature(model, request).layouts;
  EXPECT_EQ(count(model, layouts).layers, (layers() - 1) * parts() * (parts() - 1) * 2);
  EXPECT_EQ(count(model, layouts).loss, (parts() - 1) * 2);
}

TEST_P(MessageCounts, HybridCutOfOneLayerPerStageSendsAllToAll) {
  const Model model = mlp_of(layers());
  PlanRequest request;
  request.workers = layers() * parts();
  request.stages = layers();
  const auto layouts = cut_hybrid(model, request).layouts;
  EXPECT_EQ(count(model, layouts).layers, (layers() - 1) * parts() * parts() * 2);
  EXPECT_EQ(count(model, layouts).loss, (parts() - 1) * 2);
}

INSTANTIATE_TEST_SUITE_P(LayersAndParts, MessageCounts,
                         ::testing::Combine(::testing::Range(2, 7), ::testing::Range(2, 6)));

int64_t elements(const Box& box, const ops::Shape& shape) {
  return ops::local_shape(box, shape).elements_per_sample();
}

// Boxes that have nothing in common, within `whole`, and as many elements as it: each element once.
void expect_exact_cover(const std::vector<Box>& boxes, const Box& whole, const ops::Shape& shape) {
  int64_t sum = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_TRUE(whole.contains(boxes[i])) << ops::to_string(boxes[i]);
    for (size_t j = 0; j < i; ++j) EXPECT_TRUE(ops::intersect(boxes[i], boxes[j]).empty());
    sum += elements(boxes[i], shape);
  }
  EXPECT_EQ(sum, elements(whole, shape));
}

class RandomCuts : public ::testing::TestWithParam<int> {};

TEST_P(RandomCuts, BringEveryNeededElementExactlyOnce) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const Model model = random_model(random);
  const auto layouts = random_layouts(model, 4, random, {.partial_sums = false});
  const Sources sources(model, layouts);
  const auto routes = connect(model, layouts);
  for (ValueId value = 0; value < model.values(); ++value) {
    if (model.value(value).role != ValueRole::kActivation) continue;
    const ops::Shape& shape = model.value(value).spec.shape;
    for (const int part : sources.readers(value)) {
      const Box& need = *sources.need(value, part);
      std::vector<Box> boxes;
      if (const ops::Share* own = sources.held(value, part))
        if (const Box mine = ops::normalized(ops::intersect(own->box, need), shape); !mine.empty())
          boxes.push_back(mine);
      for (const Route& route : routes)
        if (route.value == value && !route.gradient && route.to == part)
          for (const Piece& piece : route.pieces) boxes.push_back(piece.box);
      expect_exact_cover(boxes, need, shape);
    }
  }
}

TEST_P(RandomCuts, HaveOneRoutePerValueDirectionSenderAndReceiver) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const Model model = random_model(random);
  const auto routes = connect(model, random_layouts(model, 5, random));
  std::set<std::tuple<ValueId, bool, int, int>> seen;
  for (size_t i = 0; i < routes.size(); ++i) {
    const Route& route = routes[i];
    EXPECT_EQ(route.id, static_cast<int>(i));
    EXPECT_NE(route.from, route.to);
    EXPECT_FALSE(route.pieces.empty());
    EXPECT_TRUE(seen.insert({route.value, route.gradient, route.from, route.to}).second);
  }
}

TEST_P(RandomCuts, NeverSendInputsLabelsOrParameters) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const Model model = random_model(random);
  for (const Route& route : connect(model, random_layouts(model, 5, random)))
    EXPECT_EQ(model.value(route.value).role, ValueRole::kActivation);
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
    layouts.resize(static_cast<size_t>(model.values()));
    for (const ValueId value : {a, b, c, d}) on(value, Layout::whole(0, 2));
    on(model.node(model.loss()).outputs[0], Layout::whole(0, 0));
  }
  void on(ValueId value, const Layout& layout) { layouts[static_cast<size_t>(value)] = layout; }
  std::vector<Route> of(ValueId value, bool gradient) const {
    std::vector<Route> routes;
    for (const Route& route : connect(model, layouts))
      if (route.value == value && route.gradient == gradient) routes.push_back(route);
    return routes;
  }

  Model model;
  ValueId a, b, c, d;
  std::vector<Layout> layouts;
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
  EXPECT_EQ(connector_words({m.model, m.layouts}, routes[0]), "slice -> bridge");
}

TEST(Connect, ReplicasServeThemselvesAndOthersAskTheFirst) {
  Diamond m;
  m.on(m.a, Layout::replicated({2, 1}, 2));
  m.on(m.b, Layout::whole(1, 2));
  const auto routes = m.of(m.a, false);  // c is on 0
  ASSERT_EQ(routes.size(), 1U);
  EXPECT_EQ(routes[0].from, 2);
  EXPECT_EQ(routes[0].to, 0);
  for (const Route& route : m.of(m.a, true))  // both replicas get the whole gradient
    EXPECT_NE(route.to, route.from);
  EXPECT_EQ(m.of(m.a, true).size(), 3U);  // b's to 2, c's to 1 and 2
}

TEST(Connect, PartialSumsComeFromAllWhoHoldThem) {
  Diamond m;
  m.on(m.b, {{{1, Box::whole(2), true}, {2, Box::whole(2), true}}});
  const auto routes = m.of(m.b, false);
  ASSERT_EQ(routes.size(), 2U);
  EXPECT_EQ(routes[0].pieces[0].partial, 0);
  EXPECT_EQ(routes[1].pieces[0].partial, 1);
  EXPECT_EQ(connector_words({m.model, m.layouts}, routes[0]), "bridge -> sum");
  EXPECT_EQ(m.of(m.b, true).size(), 2U);  // the gradient goes to both
}

TEST(Connect, InputsAreReadWhereTheyAreNeeded) {
  Diamond m;
  m.on(m.a, Layout::split({0, 1}, 2, 1, ops::split_evenly(10, 2)));
  const auto layouts = complete_layouts(m.model, m.layouts);
  const auto on = [&](const char* name) {
    return ops::describe(layouts[static_cast<size_t>(m.model.find_value(name))]);
  };
  EXPECT_EQ(on("x"), "replicated on 0,1");
  EXPECT_EQ(on("label"), "whole on 0");
  EXPECT_EQ(on("a.weight"), "split on axis 0 over 0,1");
  EXPECT_EQ(on("b.weight"), "whole on 0");
}

std::string refusal(const Model& model, const std::vector<Layout>& layouts) {
  try {
    complete_layouts(model, layouts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "not refused";
}

TEST(Connect, ALayoutThatAnOperatorCannotHonourIsRefusedByName) {
  Builder b("scores");
  const ValueId scores = b.gemm(b.input("x", {ops::kBatch, 6}), 10, "fc");
  const ValueId soft = b.softmax(scores, "softmax");
  b.loss(soft);
  const Model model = b.build();
  std::vector<Layout> layouts(static_cast<size_t>(model.values()));
  layouts[static_cast<size_t>(scores)] = Layout::whole(0, 2);
  layouts[static_cast<size_t>(model.node(model.loss()).outputs[0])] = Layout::whole(0, 0);
  layouts[static_cast<size_t>(soft)] = Layout::split({0, 1}, 2, 1, ops::split_evenly(10, 2));
  EXPECT_EQ(
      refusal(model, layouts),
      "node softmax: Softmax cannot compute [all, 0-4]: needs axis 1 whole (gather it first); "
      "layout split on axis 1 over 0,1");
}

TEST(Connect, AParameterWhoseGradientWouldBeSummedOverPartsIsRefusedByName) {
  Model model("tied");
  const ValueId x = model.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 4}});
  const ValueId w = model.add_parameter("w", {ops::DType::kFloat32, {4, 4}}, {});
  const ValueId label = model.add_label("label", {ops::DType::kInt64, {ops::kBatch}});
  const auto output = [&](NodeId node) { return model.node(node).outputs[0]; };
  const ValueId a = output(model.add_node("a", "Gemm", {}, {x, w}));
  const ValueId b = output(model.add_node("b", "Gemm", {}, {a, w}));
  const ValueId loss = output(model.add_node("loss", "SoftmaxCrossEntropyLoss", {}, {b, label}));
  std::vector<Layout> layouts(static_cast<size_t>(model.values()));
  layouts[static_cast<size_t>(a)] = Layout::whole(0, 2);
  layouts[static_cast<size_t>(b)] = Layout::whole(1, 2);
  layouts[static_cast<size_t>(loss)] = Layout::whole(1, 0);
  EXPECT_THAT(refusal(model, layouts), HasSubstr("parameter w: node a on part 0 reads"));
  layouts[static_cast<size_t>(b)] = Layout::whole(0, 2);
  EXPECT_EQ(refusal(model, layouts), "not refused");
}

}  // namespace
}  // namespace kerf::partitioner
