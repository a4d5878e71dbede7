// Steering: devices that differ, patterns, ways, places, what is together and what apart.
#include "partitioner/steering.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "partitioner/builder.h"
#include "partitioner/connected_plan.h"
#include "partitioner/cuts/feature_patterns.h"
#include "partitioner/stage_price.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "tests/partitioner/every_division.h"
#include "tests/partitioner/sample_models.h"
#include "tests/support/errors.h"

namespace kerf::partitioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::plan_of;
using testing::request_of;
using testing::small_mlp;

// Of the error that `body` throws, with its place.
template <class Body>
std::string message_of(const Body& body) {
  const auto error = tests::error_of(body);
  return error ? error->what() : "no error";
}

Capacities with_speeds(const std::vector<double>& speeds) {
  Capacities capacities;
  for (const double speed : speeds) capacities.workers.push_back({speed});
  return capacities;
}

PlanRequest free_request(int workers) {
  PlanRequest request = request_of(Cut::kFree, workers);
  request.shares.clear();
  return request;
}

Plan made(const Model& model, const PlanRequest& request) {
  const Model rewritten = model_for(model, request);
  Plan plan = plan_of(rewritten, request);
  EXPECT_THAT(validate(rewritten, plan), IsEmpty());
  return plan;
}

int worker_of(const Model& model, const Plan& plan, const std::string& name) {
  const Stage& stage = plan.stages[static_cast<size_t>(plan.stage_of(model.find_node(name)))];
  return plan.binding[static_cast<size_t>(stage.parts[0])];
}

// ---- devices

TEST(Devices, ReadAsWritten) {
  const std::string text = R"({"kerf_devices": 1,
      "workers": {"1": {"speed": 2.5, "memory": 1000}, "0": {"speed": 0.5}},
      "links": [{"between": [1, 0], "bytes_per_second": 1e9, "seconds": 1e-4}]})";
  const Capacities read = read_devices(text, "d.json", std::nullopt);
  EXPECT_EQ(read.speed_of(0), 0.5);
  EXPECT_EQ(read.speed_of(1), 2.5);
  EXPECT_EQ(read.memory_of(0), std::nullopt);
  EXPECT_EQ(read.memory_of(1), 1000);
  EXPECT_EQ(read.speed_of_all(2), 3);
  EXPECT_EQ(read.link_between(0, 1)->seconds, 1e-4);
  EXPECT_EQ(read_capacities(capacities_json(read), "again"), read);
  EXPECT_EQ(read_devices(text, "d.json", 2), read);
}

TEST(Devices, EveryMistakeIsNamed) {
  const auto refusal = [](const std::string& workers, const std::string& links = "[]") {
    return message_of([&] {
      read_devices(format(R"({{"kerf_devices": 1, "workers": {}, "links": {}}})", workers, links),
                   "d.json", 2);
    });
  };
  const std::string two = R"({"0": {"speed": 1}, "1": {"speed": 1}})";
  for (const char* speed : {"0", "-1", "1e+300", "\"NaN\"", "null", "1e-09"})
    EXPECT_THAT(refusal(format(R"({{"0": {{"speed": 1}}, "1": {{"speed": {}}}}})", speed)),
                AllOf(HasSubstr("d.json: worker 1"), HasSubstr("\"speed\""), HasSubstr(speed)));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1, "memory": 0}, "1": {"speed": 1}})"),
              AllOf(HasSubstr("d.json: worker 0"), HasSubstr("\"memory\"")));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1}, "2": {"speed": 1}})"), HasSubstr("worker 2"));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1}, "one": {"speed": 1}})"), HasSubstr("\"one\""));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1}})"), HasSubstr("worker 1 is not listed"));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1}, "1": {"speed": 1}, "2": {"speed": 1}})"),
              HasSubstr("there is no worker 2"));
  EXPECT_THAT(refusal(R"({"0": {"sped": 1}, "1": {"speed": 1}})"), HasSubstr("\"sped\""));
  EXPECT_THAT(refusal(two, R"([{"between": [0, 2]}])"), HasSubstr("no worker 2"));
  EXPECT_THAT(refusal(two, R"([{"between": [0, 0]}])"), HasSubstr("two workers"));
  EXPECT_THAT(refusal(two, R"([{"between": [0, 1]}, {"between": [1, 0]}])"), HasSubstr("twice"));
  EXPECT_THAT(refusal(two, R"([{"between": [0, 1], "bytes_per_second": 0}])"),
              AllOf(HasSubstr("links[0]"), HasSubstr("bytes_per_second")));
}

// Twice as fast in everything: half the time of everything.
TEST(Devices, TimeGoesByTheSpeedOfEach) {
  const Model model = make_zoo_model("lenet5");
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kHybrid}) {
    PlanRequest request = request_of(cut, 3);
    const Plan plain = plan_of(model, request);
    request.speed.capacities = with_speeds({2, 2, 2});
    for (const auto& [a, b] : {std::pair{0, 1}, {0, 2}, {1, 2}})
      request.speed.capacities.links[{a, b}] = {2 * request.speed.link_bytes_per_second,
                                                request.speed.link_seconds / 2};
    const Plan fast = plan_of(model, request);
    EXPECT_EQ(fast.stages, plain.stages);
    EXPECT_NEAR(fast.bottleneck, plain.bottleneck / 2, 1e-9 * plain.bottleneck);
    const auto step = [&](const Plan& plan, const DeviceSpeed& speed) {
      const auto schedule = schedmp::make_schedule("1f1b", model, plan);
      return schedmp::simulate(model, plan, lower(model, plan), schedule, speed)->step_seconds;
    };
    EXPECT_NEAR(step(plain, request.speed), step(plain, {}) / 2, 1e-9 * step(plain, {}));
    for (size_t worker = 0; worker < fast.workers.size(); ++worker)
      EXPECT_NEAR(fast.workers[worker].seconds, plain.workers[worker].seconds / 2, 1e-12);
  }
}

// The least bottleneck of all divisions into a stage for each worker, in every order of the
// workers, of those that are accepted; each is priced as a plan.
double least_bottleneck(const Model& model, const PlanRequest& request,
                        const std::function<bool(const std::vector<int>& worker_of)>& accept) {
  constexpr size_t kMost = 20'000;
  const auto divisions =
      testing::every_division(testing::partings_of(model), request.workers, kMost);
  EXPECT_LT(divisions.size(), kMost);
  double least = 1e300;
  std::vector<int> order(static_cast<size_t>(request.workers));
  std::iota(order.begin(), order.end(), 0);
  do {
    for (const std::vector<int>& stage_of : divisions) {
      std::vector<int> worker_of;
      for (const int stage : stage_of) worker_of.push_back(order[static_cast<size_t>(stage)]);
      if (!accept(worker_of)) continue;
      Assignment assignment;
      assignment.division.largest = request.largest_micro_batch();
      for (const std::vector<int>& nodes : testing::nodes_of_stages(stage_of, request.workers))
        assignment.stages.push_back({nodes, {static_cast<int>(assignment.stages.size())}});
      for (NodeId node = 0; node < model.nodes(); ++node)
        assignment.division.nodes.push_back(
            whole_division(model, node, stage_of[static_cast<size_t>(node)]));
      assignment.binding = order;
      least = std::min(least,
                       bottleneck_of(model, connected_plan(model, request, assignment), request));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

// And proves it.
void expect_least(const Model& model, const PlanRequest& request,
                  const std::function<bool(const std::vector<int>& worker_of)>& accept) {
  const Plan plan = made(model, request);
  const double least = least_bottleneck(model, request, accept);
  EXPECT_NEAR(plan.bottleneck, least, 1e-9 * least) << model.name();
  if (request.steering.places.empty())
    EXPECT_NEAR(plan.bound.value(), least, 1e-9 * least) << model.name();
  else
    EXPECT_LE(plan.bound.value(), least * (1 + 1e-9)) << model.name();
}

TEST(Devices, LayerCutFindsTheBestOfAll) {
  for (const Model& model : {small_mlp(), testing::skip_model(), testing::branch_model()})
    for (const std::vector<double>& speeds : {std::vector<double>{1, 2, 4}, {4, 1, 1}, {3, 0.5, 2}})
      for (const double link_seconds : {20e-6, 1e-7}) {
        PlanRequest request = request_of(Cut::kLayer, 3);
        request.speed.link_seconds = link_seconds;
        request.speed.capacities = with_speeds(speeds);
        expect_least(model, request, [](const auto&) { return true; });
      }
}

// Workers that are said to be alike are planned for as if nothing were said.
TEST(Devices, ThatAreAlikeChangeNothing) {
  for (const Model& model : testing::sample_models())
    for (const int workers : {2, 3}) {
      PlanRequest request = request_of(Cut::kLayer, workers);
      const Plan plain = plan_of(model, request);
      request.speed.capacities = with_speeds(std::vector<double>(static_cast<size_t>(workers), 1));
      const Plan said = made(model, request);
      EXPECT_EQ(said.stages, plain.stages) << model.name();
      EXPECT_EQ(said.bottleneck, plain.bottleneck);
      EXPECT_NEAR(said.bound.value(), plain.bound.value(), 1e-9 * plain.bottleneck);
    }
}

TEST(Devices, NobodyTakesMoreThanItsDeviceHas) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.speed.capacities = with_speeds({1, 1});
  const Plan free = made(model, request);
  for (const size_t small : {size_t{0}, size_t{1}}) {
    const int64_t less = free.workers[small].peak_bytes - 1;
    request.speed.capacities = with_speeds({1, 1});
    request.speed.capacities.workers[small].memory = less;
    const Plan plan = made(model, request);
    EXPECT_LE(plan.workers[small].peak_bytes, less);
  }
  request.speed.capacities.workers[1].memory = 10'000;  // the loss alone has room in it
  EXPECT_LE(made(model, request).workers[1].peak_bytes, 10'000);
  request.speed.capacities.workers[1].memory = 100;
  const auto answer = make_plan(model, request, *hold_everything());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(answer));
  EXPECT_THAT(std::get<Infeasible>(answer).text(), HasSubstr("worker 1's device"));
}

TEST(Devices, PlansKeepThemAndWhatWasAsked) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 3);
  request.speed.capacities = with_speeds({1, 2, 4});
  request.speed.capacities.links[{0, 2}] = {1e8, std::nullopt};
  request.steering.apart = {{"fc1", "fc2"}};
  request.steering.together = {{"fc3", "loss"}};
  request.steering.places = {{"fc1", 2}};
  const Plan plan = made(model, request);
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    const Plan back = read_plan(model, write_plan(model, plan, form), "p.json");
    EXPECT_EQ(back.request->capacities, request.speed.capacities);
    EXPECT_EQ(back.request->steering, request.steering);
    EXPECT_EQ(back.workers, plan.workers);  // predicted with them
    EXPECT_EQ(back.bottleneck, plan.bottleneck);
  }
}

// ---- patterns

TEST(FeaturePatterns, EveryUnitGoesToOneWorker) {
  for (const int64_t units : {1, 2, 7, 10, 64})
    for (const int workers : {1, 2, 3, 5}) {
      std::vector<std::vector<ops::IndexSet>> all;
      for (const int64_t block : {1, 2, 3, 100})
        all.push_back(block_cyclic_sets(units, workers, block));
      std::vector<double> weights;
      for (int worker = 0; worker < workers; ++worker) weights.push_back(1 << worker);
      all.push_back(proportional_sets(units, weights));
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (int worker = 0; worker < workers; ++worker)
        EXPECT_LT(
            std::abs(static_cast<double>(all.back()[static_cast<size_t>(worker)].size(units)) -
                     static_cast<double>(units) * weights[static_cast<size_t>(worker)] / sum),
            1);
      for (const auto& sets : all) {
        std::vector<int> owners(static_cast<size_t>(units));
        for (const ops::IndexSet& set : sets)
          for (const ops::Range& range :
               set.empty() ? std::vector<ops::Range>{} : set.ranges(units))
            for (int64_t unit = range.begin; unit < range.end; ++unit)
              ++owners[static_cast<size_t>(unit)];
        EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), units);
      }
    }
  EXPECT_EQ(ops::to_string(block_cyclic_sets(10, 4, 2)[0]), "0-1,8-9");
}

PlanRequest request_of_speeds_124(Minimise minimise, const std::string& pattern) {
  PlanRequest request = free_request(3);
  request.batch = 128;
  request.micro_batches = 8;
  request.minimise = minimise;
  request.speed.capacities = with_speeds({1, 2, 4});
  request.steering.pattern = pattern;
  return request;
}

// Within 1.02 of total work over total speed.
TEST(FeaturePatterns, FreeIsInProportionToSpeeds) {
  const Model model = make_zoo_model("mlp");
  double flops = 0;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const ops::Box whole = whole_division(model, node, 0).shares[0].box;
    flops += 8 * node_cost(model, node, whole, 16, 16).work.forward_flops;
  }
  for (const auto& [minimise, pattern] :
       {std::pair(Minimise::kForwardFlops, ""), std::pair(Minimise::kForwardFlops, "proportional"),
        std::pair(Minimise::kTime, "proportional")}) {
    const PlanRequest request = request_of_speeds_124(minimise, pattern);
    const Plan plan = made(model, request);
    for (const WorkerPrediction& worker : plan.workers)
      EXPECT_LE(worker.forward_flops,
                1.02 * flops / 7 * request.speed.capacities.speed_of(worker.worker))
          << pattern;
  }
}

// Seconds have parts that no division makes smaller, launches and what all read, so that who is
// slower gets less than its proportion.
TEST(FeaturePatterns, SecondsAreEvenWhereOnlyDevicesAreSaid) {
  const Model model = make_zoo_model("mlp");
  const auto seconds_of = [&](const std::string& pattern) {
    std::vector<double> seconds;
    for (const auto& worker : made(model, request_of_speeds_124(Minimise::kTime, pattern)).workers)
      seconds.push_back(worker.seconds);
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  };
  const std::vector<double> found = seconds_of("");
  EXPECT_LE(found.back(), 1.02 * found.front());
  EXPECT_LT(found.back(), seconds_of("proportional").back());
}

TEST(FeaturePatterns, BlocksInTurn) {
  const Model model = small_mlp();  // 20-16-12-10
  PlanRequest request = free_request(2);
  request.steering.pattern = "block-cyclic:4";
  const Plan plan = made(model, request);
  const ops::Layout& fc1 =
      plan.layouts[static_cast<size_t>(model.node(model.find_node("fc1")).outputs[0])];
  EXPECT_EQ(ops::to_string(fc1.find(0)->box.axes[1]), "0-3,8-11");
  EXPECT_EQ(ops::to_string(fc1.find(1)->box.axes[1]), "4-7,12-15");
}

TEST(Devices, CutsDivideByTheirSpeeds) {
  const Model model = make_zoo_model("mlp", {{20, 16, 12, 16}});
  for (const Cut cut : {Cut::kFeature, Cut::kBatch, Cut::kHybrid, Cut::kFree}) {
    SCOPED_TRACE(to_string(cut));
    PlanRequest request = request_of(cut, cut == Cut::kHybrid ? 4 : 2);
    request.shares.clear();
    request.batch = 32;
    request.micro_batches = 1;
    request.speed.capacities = with_speeds({1, 3, 1, 3});
    request.speed.capacities.workers.resize(static_cast<size_t>(request.workers));
    const Plan plan = made(model, request);
    const auto& shares = plan.division.nodes[0].shares;
    ASSERT_EQ(shares.size(), 2U);
    const ops::Shape extents = model.op(0).space().extents().with_batch(32);
    const auto size = [&](size_t i) {
      return static_cast<double>(ops::local_shape(shares[i].box, extents).elements());
    };
    EXPECT_GT(size(1) / size(0), 2);
    for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
      const std::string text = write_plan(model_for(model, request), plan, form);
      const Plan back = read_plan(model_for(model, request), text, "p.json");
      EXPECT_EQ(back.division.nodes, plan.division.nodes);
      if (form == PlanText::kDecisions && (cut == Cut::kFeature || cut == Cut::kBatch)) {
        EXPECT_THAT(text, Not(HasSubstr("layouts")));
      }
    }
  }
}

TEST(Devices, OneThatIsTooSlowForAnySampleIsNamed) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kBatch, 2);
  request.speed.capacities = with_speeds({1, 1000});
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("worker 0"), HasSubstr("leave it out of --devices")));
  request = free_request(2);
  request.speed.capacities = with_speeds({1, 1e6});
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("worker 0"), HasSubstr("leave it out of --devices")));
}

// Stack 1 of one product, whose columns are to be divided.
TEST(Devices, AProductOfOneStackIsDividedByColumns) {
  Builder b("stacks");
  const ValueId x = b.input("x", {ops::kBatch, 1, 4, 8});
  const ValueId w = b.parameter("w", {8, 30}, {ops::Initializer::Kind::kUniform, 0.5});
  const ValueId y = b.node("MatMul", {x, w}, {}, "product");
  b.loss(b.gemm(b.flatten(y, "flatten"), 6, "fc"));
  const Model model = b.build();
  for (const char* pattern : {"", "block-cyclic:2"}) {
    PlanRequest request = free_request(3);
    if (*pattern == 0) request.speed.capacities = with_speeds({1, 1, 2});
    request.steering.pattern = pattern;
    const Plan plan = made(model, request);
    const NodeId product = model.find_node("product");
    EXPECT_EQ(plan.division.nodes[static_cast<size_t>(product)].shares.size(), 3U) << pattern;
  }
}

// ---- ways

std::string layout_text(const Model& model, const Plan& plan, const std::string& node) {
  const ValueId output = model.node(model.find_node(node)).outputs[0];
  return ops::describe(plan.layouts[static_cast<size_t>(output)]);
}

TEST(Ways, EachOperatorByItsOwn) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = free_request(2);
  request.steering.ways = {{"conv*", "batch"}, {"fc*", "feature"}};
  const Plan plan = made(model, request);
  for (const char* node : {"conv1", "relu1", "pool1", "conv2", "pool2"})
    EXPECT_EQ(layout_text(model, plan, node), "split on axis 0 over 0,1") << node;
  for (const char* node : {"fc1", "relu3", "fc2", "relu4", "fc3"})
    EXPECT_EQ(layout_text(model, plan, node), "split on axis 1 over 0,1") << node;
  request.steering.ways.push_back({"fc3", "whole:1"});  // the last that fits holds
  request.steering.ways.push_back({"relu3", "batch"});
  const Plan other = made(model, request);
  EXPECT_EQ(layout_text(model, other, "fc3"), "whole on 1");
  EXPECT_EQ(layout_text(model, other, "relu3"), "split on axis 0 over 0,1");
  EXPECT_EQ(layout_text(model, other, "fc2"), "split on axis 1 over 0,1");
}

TEST(Ways, OthersByTheCutThatWasAsked) {
  const Model model = small_mlp();
  PlanRequest request = free_request(2);
  request.steering.ways = {{"fc2", "feature"}};
  request.steering.others = "batch";
  const Plan plan = made(model, request);
  EXPECT_EQ(layout_text(model, plan, "fc1"), "split on axis 0 over 0,1");
  EXPECT_EQ(layout_text(model, plan, "fc2"), "split on axis 1 over 0,1");
  EXPECT_EQ(layout_text(model, plan, "fc3"), "split on axis 0 over 0,1");
}

TEST(Ways, NormalisationsBySampleAreRewritten) {
  const Model model = make_zoo_model("lenet5-bn");
  PlanRequest request = free_request(2);
  request.steering.ways = {{"conv*", "batch"}, {"fc*", "feature"}};
  const Model rewritten = model_for(model, request);
  EXPECT_EQ(rewritten.rewrites().size(), 2U);
  const Plan plan = made(model, request);
  EXPECT_EQ(layout_text(rewritten, plan, "relu1"), "split on axis 0 over 0,1");
}

TEST(Ways, WhatCannotBeIsNamed) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = free_request(2);
  const auto refusal = [&](const std::string& pattern, const std::string& way) {
    request.steering.ways = {{pattern, way}};
    return message_of([&] { made(model, request); });
  };
  EXPECT_THAT(refusal("cnv1", "batch"), AllOf(HasSubstr("--way"), HasSubstr("conv1")));
  EXPECT_THAT(refusal("fc1", "whole:2"), HasSubstr("0 to 1"));
  for (const char* text : {"fc1", "=batch", "fc1=", "fc1=whole:", "fc1=whole:x", "fc1=space"})
    EXPECT_THROW(parse_way(text), Error) << text;
  EXPECT_EQ(parse_way("a=b=batch"), (WayRule{"a=b", "batch"}));
  for (const char* text : {"evn", "block-cyclic:0", "block-cyclic:", "block-cyclic:-1"})
    EXPECT_THROW(parse_pattern(text), Error) << text;
  for (const char* text : {"a", "a,", ",b", ","}) EXPECT_THROW(parse_patterns(text), Error) << text;
}

TEST(Ways, WhatCannotBeDividedSoIsNamed) {
  const auto refusal = [](const Model& model, const WayRule& rule) {
    PlanRequest request = free_request(2);
    request.steering.ways = {rule};
    return message_of([&] { made(model, request); });
  };
  Builder one("one");
  one.loss(one.gemm(one.gemm(one.input("x", {ops::kBatch, 4}), 1, "narrow"), 6, "fc"));
  EXPECT_THAT(refusal(one.build(), {"narrow", "feature"}),
              AllOf(HasSubstr("node narrow"), HasSubstr("no features that could be apart")));
  Builder rows("rows");
  const ValueId x = rows.gemm(rows.input("x", {ops::kBatch, 4}), 6, "fc1");
  const ValueId hard = rows.node("LpNormalization", {x}, {}, "unit");
  rows.loss(rows.gemm(hard, 6, "fc2"));
  EXPECT_THAT(refusal(rows.build(), {"unit", "feature"}),
              AllOf(HasSubstr("node unit"), HasSubstr("no features that could be apart")));
  Builder mixed("mixed");
  const ValueId all = mixed.gemm(mixed.input("x", {ops::kBatch, 4}), 6, "fc");
  const ValueId turned =
      mixed.node("Transpose", {all}, {{"perm", std::vector<int64_t>{1, 0}}}, "turned");
  mixed.loss(mixed.reshape(mixed.reshape(turned, {-1}, "in_a_row"), {-1, 6}, "dealt"));
  EXPECT_THAT(refusal(mixed.build(), {"in_a_row", "batch"}),
              AllOf(HasSubstr("node in_a_row"), HasSubstr("by sample")));
  // Which speaks of those that can be.
  EXPECT_EQ(refusal(make_zoo_model("lenet5"), {"*", "feature"}), "no error");
}

// Each by the rewrite that divides it, or as what it reads.
TEST(Ways, RowsAndLossesByFeatureAreRewritten) {
  Builder b("rows");
  const ValueId x = b.gemm(b.input("x", {ops::kBatch, 6}), 12, "fc1");
  const ValueId y = b.gemm(b.layer_norm(x, "norm"), 12, "fc2");
  b.loss(b.gemm(b.softmax(y, "shares"), 10, "fc3"));
  const Model model = b.build();
  for (const char* node : {"norm", "shares", "loss"}) {
    PlanRequest request = free_request(2);
    request.steering.ways = {{node, "feature"}};
    const Model rewritten = model_for(model, request);
    ASSERT_EQ(rewritten.rewrites().size(), 1U) << node;
    EXPECT_EQ(rewritten.rewrites()[0].node, node);
    made(model, request);
  }
}

TEST(Ways, WorkersThatTheWaysLeaveIdleAreToldSo) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = free_request(3);
  request.steering.ways = {{"*", "whole:1"}};
  EXPECT_THAT(message_of([&] { made(model, request); }), HasSubstr("the ways give it none"));
}

// ---- layers

TEST(Places, LinesOfPatternsAndWorkers) {
  EXPECT_THAT(read_places("# all\nenc* 0 # first\n\n  dec?.out  12\n", "p.txt"),
              ElementsAre(PlaceRule{"enc*", 0}, PlaceRule{"dec?.out", 12}));
  for (const char* text : {"", "# nothing", "a", "a x", "a 0 b", "a -1", "a 01", "a 5000"})
    EXPECT_THAT(message_of([&] { read_places(text, "p.txt"); }), HasSubstr("p.txt")) << text;
}

// TensorFlow's example: encoder, decoder and scores are on devices of their own.
TEST(FoundersPlace, SequenceToSequenceOverThreeWorkers) {
  const Model model = make_zoo_model("seq2seq");
  PlanRequest request = request_of(Cut::kLayer, 3);
  request.steering.places = {{"*", 2}, {"*encoder*", 0}, {"source*", 0}, {"*decoder*", 1}};
  const Plan plan = made(model, request);
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const std::string& name = model.node(node).name;
    const int expected = name.find("encoder") != name.npos || name.starts_with("source") ? 0
                         : name.find("decoder") != name.npos                             ? 1
                                                                                         : 2;
    EXPECT_EQ(worker_of(model, plan, name), expected) << name;
  }
}

// Out and back: the worker has two stages, and what nobody placed lies where it costs least.
TEST(Places, ACycleBecomesSeveralStages) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.steering.places = {{"conv1", 0}, {"conv2", 1}, {"fc1", 0}, {"fc3", 1}};
  const Plan plan = made(model, request);
  EXPECT_THAT(plan.binding, ElementsAre(0, 1, 0, 1));
  for (const PlaceRule& rule : request.steering.places)
    EXPECT_EQ(worker_of(model, plan, rule.pattern), rule.worker) << rule.pattern;
  request.workers = 3;  // the third has what is left
  const Plan three = made(model, request);
  EXPECT_NE(std::find(three.binding.begin(), three.binding.end(), 2), three.binding.end());
  for (const PlaceRule& rule : request.steering.places)
    EXPECT_EQ(worker_of(model, three, rule.pattern), rule.worker) << rule.pattern;
  request.steering.places = {{"conv1", 5}};
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("--place"), HasSubstr("0 to 2")));
}

TEST(TogetherAndApart, AreKept) {
  for (const Model& model : testing::sample_models())
    for (const int workers : {2, 3})
      for (NodeId a = 0; a < model.nodes(); a += 2)
        for (NodeId b = a + 1; b < model.nodes(); b += 3) {
          PlanRequest request = request_of(Cut::kLayer, workers);
          const std::string& first = model.node(a).name;
          const std::string& second = model.node(b).name;
          request.steering.apart = {{first, second}};
          const Plan apart = made(model, request);
          EXPECT_NE(worker_of(model, apart, first), worker_of(model, apart, second));
          request.steering = {};
          request.steering.together = {{first, second}};
          try {
            const Plan together = made(model, request);
            EXPECT_EQ(together.stage_of(a), together.stage_of(b));
          } catch (const Error& error) {  // all between them stays with them
            EXPECT_THAT(error.message(), HasSubstr("stages need"));
          }
        }
}

TEST(TogetherAndApart, AndPlacesCostTheLeast) {
  const auto at = [](const std::vector<int>& worker_of, NodeId node) {
    return worker_of[static_cast<size_t>(node)];
  };
  for (const Model& model : {small_mlp(), testing::skip_model(), testing::branch_model()}) {
    PlanRequest request = request_of(Cut::kLayer, 2);
    request.speed.link_seconds = 1e-6;
    for (NodeId a = 0; a < model.nodes(); ++a) {
      const std::string& name = model.node(a).name;
      for (const int worker : {0, 1}) {
        request.steering = {.places = {{name, worker}}};
        expect_least(model, request,
                     [&](const auto& worker_of) { return at(worker_of, a) == worker; });
      }
      for (NodeId b = a + 1; b < model.nodes(); ++b) {
        request.steering = {.apart = {{name, model.node(b).name}}};
        expect_least(model, request,
                     [&](const auto& worker_of) { return at(worker_of, a) != at(worker_of, b); });
      }
    }
  }
}

TEST(TogetherAndApart, ContradictionsAreRefused) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.steering.together = {{"fc1", "fc2"}};
  request.steering.apart = {{"fc1", "fc2"}};
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("--apart"), HasSubstr("fc2")));
  request.steering.together.clear();
  request.steering.apart = {{"fc1", "fc2", "fc3"}};  // three lists, but two workers
  EXPECT_THAT(message_of([&] { made(model, request); }), HasSubstr("--apart"));
  request.steering.apart = {{"fc9", "fc2"}};
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("--apart"), HasSubstr("nearest names are fc1, fc2, fc3")));
}

TEST(StagesPerWorker, GoInTurn) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.steering.stages_per_worker = 3;
  const Plan plan = made(model, request);
  EXPECT_THAT(plan.binding, ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_LE(plan.bound.value(), plan.bottleneck);
  request.steering.stages_per_worker = 30;
  EXPECT_THAT(message_of([&] { made(model, request); }), HasSubstr("--stages-per-worker"));
}

}  // namespace
}  // namespace kerf::partitioner
