// Layer cuts that a person has a say in: places, what is together and what apart, stages in turn.
#include <gmock/gmock.h>

#include <algorithm>

#include "partitioner/steering.h"
#include "tests/partitioner/steered_plans.h"

namespace kerf::partitioner {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_least;
using ::testing::HasSubstr;
using testing::made;
using testing::message_of;
using testing::request_of;
using testing::small_mlp;
using testing::with_speeds;

int worker_of(const Model& model, const Plan& plan, const std::string& name) {
  const Stage& stage = plan.stages[static_cast<size_t>(plan.stage_of(model.find_node(name)))];
  return plan.binding[static_cast<size_t>(stage.parts[0])];
}

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

// Nearly all work on one worker: no plan that is asked so has less there.
TEST(Places, WhatIsOnOneWorkerBoundsEveryPlan) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.minimise = Minimise::kForwardFlops;
  request.steering.places = {{"*", 1}, {"conv1", 0}};
  const Plan plan = made(model, request);
  EXPECT_EQ(plan.witness.text, "what is placed on worker 1");
  EXPECT_NEAR(plan.bound.value(), plan.bottleneck, 1e-9 * plan.bottleneck);
  request.speed.capacities = with_speeds({1, 4});
  const Plan fast = made(model, request);
  EXPECT_NEAR(fast.bound.value(), fast.bottleneck, 1e-9 * fast.bottleneck);
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
