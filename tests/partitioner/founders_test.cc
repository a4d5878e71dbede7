// The examples by which the founders of partitioned training explained themselves, as tests by
// name.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>

#include "partitioner/builder.h"
#include "partitioner/sources.h"
#include "partitioner/zoo.h"
#include "runtime/file.h"
#include "tests/partitioner/narrow_zoo.h"
#include "tests/partitioner/rewritten_plans.h"
#include "tests/support/temporary_folder.h"

namespace kerf::partitioner {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// ---- MXNet (Chen et al. 2015): an LSTM of two layers over two devices

//   tokens ── embedding ── l0 ── l1 ── scores ── loss
Model two_layers() {
  constexpr int64_t kSteps = 5;
  constexpr int64_t kUnits = 6;
  Builder b("two-layers");
  ValueId x =
      b.embedding(b.input("tokens", {ops::kBatch, kSteps}, ops::DType::kInt64), 8, 4, "embedding");
  for (int64_t layer = 0; layer < 2; ++layer) {
    const ValueId y = b.lstm_layer(x, kUnits, {}, "lstm", layer).y;
    x = b.reshape(y, {0, 0, kUnits}, format("lstm.l{}.sequence", layer));
  }
  const ValueId scores = b.linear(x, 8, "scores");
  b.loss(b.node("Transpose", {scores}, {{"perm", std::vector<int64_t>{0, 2, 1}}}, "by_token"));
  return b.build();
}

std::set<int> parts_of(const Made& made, const std::string& node) {
  std::set<int> parts;
  const NodeId id = made.model.find_node(node);
  for (const ops::Share& share : made.plan.division.nodes.at(static_cast<size_t>(id)).shares)
    parts.insert(share.part);
  return parts;
}

TEST(Founders, MxnetsTwoLayersOnTwoWorkersByLayer) {
  const Model model = two_layers();
  const Made made = made_by(model, Cut::kLayer, 2);
  EXPECT_THAT(parts_of(made, "lstm.l0"), UnorderedElementsAre(0));
  EXPECT_THAT(parts_of(made, "lstm.l1"), UnorderedElementsAre(1));
  // What the first layer gives crosses, and its gradient; nothing of its states does.
  std::multiset<std::string> crossing;
  for (const Route& route : made.plan.routes)
    if (!is_of_step(made.model, route)) crossing.insert(name_of(made.model, route));
  EXPECT_EQ(crossing.size(), 2U);
  expect_same_bits(run(made.model, made.plan), run(model, plan_of(model, Cut::kLayer, 1)));
}

TEST(Founders, MxnetsTwoLayersOnTwoWorkersByHiddenUnit) {
  const Model model = two_layers();
  const Made made = made_by(model, Cut::kFree, 2, R"({
      "lstm.l0": {"0": {"hidden units": "0-2"}, "1": {"hidden units": "3-5"}},
      "lstm.l1": {"0": {"hidden units": "0,2,4"}, "1": {"hidden units": "1,3,5"}}})");
  EXPECT_THAT(parts_of(made, "lstm.l0"), UnorderedElementsAre(0, 1));
  EXPECT_THAT(parts_of(made, "lstm.l1"), UnorderedElementsAre(0, 1));
  expect_same_steps(run(made.model, made.plan), run(model, plan_of(model, Cut::kLayer, 1)), 1e-5F);
}

// ---- DistBelief (Dean et al. 2012), figure 1: a locally connected net over four machines; only
// what has edges across a boundary is sent, and a value once to a machine, however many edges

constexpr int64_t kSide = 6;       // of the lower layer
constexpr int64_t kReach = 3;      // rows and columns that a unit above sees
constexpr int64_t kAbove = 4;      // kSide - kReach + 1
constexpr int64_t kLowerMaps = 2;  // of the lower layer
constexpr int64_t kUpperMaps = 3;  // of the upper layer

//   image ── conv1 ── relu1 ── patches ── local ── flatten ── fc ── loss
//
// `patches` gives every position what it sees; `local` has weights of their own for each of them.
Model locally_connected() {
  Builder b("locally-connected");
  const ValueId image = b.input("image", {ops::kBatch, 1, kSide, kSide});
  const ValueId lower = b.relu(b.conv(image, kLowerMaps, 3, 1, 1, "conv1"), "relu1");
  constexpr int64_t kSeen = kLowerMaps * kReach * kReach;
  std::vector<float> one_each(static_cast<size_t>(kSeen * kSeen), 0.0F);
  for (int64_t i = 0; i < kSeen; ++i) one_each[static_cast<size_t>(i * kSeen + i)] = 1;
  const ops::TensorLiteral taps{
      ops::DType::kFloat32,
      {kSeen, kLowerMaps, kReach, kReach},
      std::string(reinterpret_cast<const char*>(one_each.data()), one_each.size() * sizeof(float))};
  const ValueId patches =
      b.node("Conv", {lower, b.constant("taps", taps)}, {}, "patches");  // [N, seen, rows, columns]
  const ValueId weights = b.parameter("local.weight", {kSeen, kAbove, kAbove, kUpperMaps},
                                      {ops::Initializer::Kind::kUniform, 0.3});
  const ValueId upper =
      b.node("Einsum", {patches, weights}, {{"equation", std::string("nkhw,khwo->nohw")}}, "local");
  b.loss(b.gemm(b.flatten(b.relu(upper, "relu2"), "flatten"), 4, "fc"));
  return b.build();
}

constexpr const char* kQuarters = R"({
    "conv1": {"0": {"rows": "0-2", "columns": "0-2"}, "1": {"rows": "0-2", "columns": "3-5"},
              "2": {"rows": "3-5", "columns": "0-2"}, "3": {"rows": "3-5", "columns": "3-5"}},
    "patches": {"0": {"rows": "0-1", "columns": "0-1"}, "1": {"rows": "0-1", "columns": "2-3"},
                "2": {"rows": "2-3", "columns": "0-1"}, "3": {"rows": "2-3", "columns": "2-3"}},
    "local": {"0": {"h": "0-1", "w": "0-1"}, "1": {"h": "0-1", "w": "2-3"},
              "2": {"h": "2-3", "w": "0-1"}, "3": {"h": "2-3", "w": "2-3"}}})";

int machine_of(int64_t row, int64_t column, int64_t side) {
  return static_cast<int>(row / (side / 2) * 2 + column / (side / 2));
}

TEST(Founders, DistBeliefsLocallyConnectedNetSendsAValueOnceToAMachine) {
  const Model model = locally_connected();
  const Made made = made_by(model, Cut::kFree, 4, kQuarters);
  // Unit by unit of the upper layer: what it sees of another machine.
  std::map<std::pair<int, int>, std::set<std::vector<int64_t>>> needed;
  int64_t edges = 0;
  for (int64_t h = 0; h < kAbove; ++h)
    for (int64_t w = 0; w < kAbove; ++w)
      for (int64_t i = 0; i < kReach; ++i)
        for (int64_t j = 0; j < kReach; ++j) {
          const int from = machine_of(h + i, w + j, kSide);
          const int to = machine_of(h, w, kAbove);
          if (from == to) continue;
          for (int64_t c = 0; c < kLowerMaps; ++c) needed[{from, to}].insert({c, h + i, w + j});
          edges += kLowerMaps * kUpperMaps;
        }
  const ValueId lower = made.model.find_value("relu1.output");
  int64_t sent = 0;
  std::set<std::pair<int, int>> pairs;
  for (const Route& route : made.plan.routes) {
    if (route.value != lower || route.gradient) continue;
    EXPECT_TRUE(pairs.insert({route.from, route.to}).second) << "one bridge for each machine";
    int64_t values = 0;
    for (const Piece& piece : route.pieces)
      values += ops::local_shape(piece.box, made.model.value(lower).spec.shape, 1).elements();
    EXPECT_EQ(values, std::ssize(needed[{route.from, route.to}])) << route.from << route.to;
    sent += values;
  }
  EXPECT_EQ(pairs.size(), needed.size());
  EXPECT_EQ(pairs.size(), 12U);  // diagonal neighbours too
  EXPECT_GT(edges, 4 * sent);
  expect_same_steps(run(made.model, made.plan), run(model, plan_of(model, Cut::kLayer, 1)), 1e-5F);
}

// ---- SINGA (Wang et al. 2015): each layer its own way to be divided; Krizhevsky (2014): the
// convolutions by sample, since they have much to compute, the rest by feature: it has weights

TEST(Founders, SingasConvolutionsByBatchAndTheRestByFeature) {
  const Model model = make_zoo_model("lenet5");
  const Made made = made_by(model, Cut::kFree, 2, R"({
      "conv1": {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}},
      "conv2": {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}},
      "fc1": {"0": "0-59", "1": "60-119"}, "fc2": {"0": "0-41", "1": "42-83"}})");
  const Sources sources(made.model, made.plan.division);
  const auto elements = [&](const std::string& name, bool home) {
    const ValueId value = made.model.find_value(name);
    std::vector<int64_t> counts;
    for (const int part : {0, 1})
      counts.push_back(
          ops::local_shape(home ? sources.held(value, part)->box : *sources.need(value, part),
                           sources.shape(value))
              .elements());
    return counts;
  };
  using Counts = std::vector<int64_t>;
  // Both read all of a convolution's weights, of which each keeps half; of the others each has its
  // features' only.
  EXPECT_EQ(elements("conv2.weight", false), (Counts{2400, 2400}));
  EXPECT_EQ(elements("conv2.weight", true), (Counts{1200, 1200}));
  EXPECT_EQ(elements("fc1.weight", false), (Counts{24000, 24000}));
  EXPECT_EQ(elements("fc1.weight", true), (Counts{24000, 24000}));
  // Between them everybody gets the other's rows.
  std::set<std::pair<int, int>> pairs;
  for (const Route& route : made.plan.routes)
    if (!route.gradient && value_name(made.model, route) == "flatten.output") {
      EXPECT_TRUE(pairs.insert({route.from, route.to}).second);
    }
  EXPECT_THAT(pairs, UnorderedElementsAre(std::pair(0, 1), std::pair(1, 0)));
  expect_same_steps(run(made.model, made.plan), run(model, plan_of(model, Cut::kLayer, 1)), 1e-5F);
}

// ---- TensorFlow (Abadi et al. 2015): sequence to sequence, whose encoder, decoder and scores a
// person places on devices of their own

constexpr const char* kThreeDevices = R"(
*          2   # scores and loss
*encoder*  0
source*    0
*decoder*  1
)";

// As --place reads it.
std::vector<PlaceRule> places_of_file(const std::string& text) {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "places.txt";
  std::ofstream(path) << text;
  return read_places(runtime::read_file(path), path);
}

int device_of(const std::string& node) {
  if (node.find("encoder") != node.npos || node.starts_with("source")) return 0;
  return node.find("decoder") != node.npos ? 1 : 2;
}

std::vector<StepResult> three_steps(const Model& model, const Plan& plan) {
  PartRunner runner(model, plan, {.backward = Backward::kTogether, .rate = kNarrowRate});
  std::vector<StepResult> steps;
  for (int step = 0; step < kNarrowSteps; ++step) steps.push_back(runner.run(kUnequal));
  EXPECT_THAT(runner.faults(), IsEmpty());
  return steps;
}

TEST(Founders, TensorFlowsSequenceToSequenceOverThreeDevicesByPlace) {
  const Model model = narrow(find_zoo_model("seq2seq"));
  PlanRequest request;
  request.workers = 3;
  request.batch = 10;
  request.micro_batches = 3;
  request.steering.places = places_of_file(kThreeDevices);
  const Plan plan = std::get<Plan>(make_plan(model, request, *hold_everything()));
  EXPECT_THAT(validate(model, plan), IsEmpty());
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const Stage& stage = plan.stages.at(static_cast<size_t>(plan.stage_of(node)));
    const std::string& name = model.node(node).name;
    EXPECT_EQ(plan.workers_of(stage), std::vector{device_of(name)}) << name;
  }
  const auto got = three_steps(model, plan);
  const auto expected = three_steps(model, plan_of(model, Cut::kLayer, 1));
  for (size_t step = 0; step < got.size(); ++step) expect_same_bits(got[step], expected[step]);
  EXPECT_LT(expected.back().losses[0], expected.front().losses[0]) << "it trains";
}

}  // namespace
}  // namespace kerf::partitioner
