// Layer cuts that a person has a say in: places, what is together and what apart, stages in turn.
#include <gmock/gmock.h>

#include <algorithm>

#include "partitioner/steering.h"
#include "tests/partitioner/every_division.h"
#include "tests/partitioner/steered_plans.h"

namespace kerf::partitioner {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::every_division;
using testing::expect_least;
using ::testing::HasSubstr;
using testing::made;
using testing::message_of;
using testing::partings_of;
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

// Two stages on each of two workers, in any order of them.
class Apart : public ::testing::TestWithParam<const char*> {
 protected:
  Apart() : model_(make_zoo_model(GetParam())) {
    request_.steering.stages_per_worker = 2;
    std::vector<int> row{0, 0, 1, 1};
    do rows_.push_back(row);
    while (std::next_permutation(row.begin(), row.end()));
  }

  // Whether two operators are on different workers in any division that there is, the stages on
  // such workers.
  bool can_part(NodeId a, NodeId b, const std::vector<std::vector<int>>& rows) const {
    const auto parts = [&](const std::vector<int>& row, const std::vector<int>& stage_of) {
      const auto on = [&](NodeId node) {
        return row[static_cast<size_t>(stage_of[static_cast<size_t>(node)])];
      };
      return on(a) != on(b);
    };
    return std::any_of(divisions_.begin(), divisions_.end(), [&](const auto& stage_of) {
      return std::any_of(rows.begin(), rows.end(),
                         [&](const auto& row) { return parts(row, stage_of); });
    });
  }

  const Model model_;
  const std::vector<std::vector<int>> divisions_ = every_division(partings_of(model_), 4, 20'000);
  const std::vector<int> in_turn_{0, 1, 0, 1};
  std::vector<std::vector<int>> rows_;
  PlanRequest request_ = request_of(Cut::kLayer, 2);
};

Plan made_apart(const Model& model, const PlanRequest& request) {
  Plan plan = made(model, request);
  const std::vector<std::string>& names = request.steering.apart[0];
  EXPECT_NE(worker_of(model, plan, names[0]), worker_of(model, plan, names[1]))
      << names[0] << " " << names[1];
  return plan;
}

TEST_P(Apart, WhereverADivisionHasThemApart) {
  ASSERT_LT(divisions_.size(), 20'000U);
  for (NodeId a = 0; a < model_.nodes(); ++a)
    for (NodeId b = a + 1; b < model_.nodes(); ++b) {
      request_.steering.apart = {{model_.node(a).name, model_.node(b).name}};
      if (!can_part(a, b, rows_)) {
        EXPECT_THAT(message_of([&] { made(model_, request_); }), HasSubstr("--apart"));
        continue;
      }
      const Plan plan = made_apart(model_, request_);
      EXPECT_EQ(plan.binding == in_turn_, can_part(a, b, {in_turn_}));
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Apart, ::testing::Values("lenet5", "mlp"));

// Of four operators with a stage each the outer two are apart in some orders of the workers only.
TEST(StagesPerWorker, TakeAnotherOrderWhereTheTurnsLeaveNone) {
  Builder b("four");
  ValueId x = b.input("x", {ops::kBatch, 4});
  for (const char* name : {"a", "b", "c"}) x = b.gemm(x, 4, name);
  b.loss(x);
  const Model model = b.build();
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.steering.stages_per_worker = 2;
  for (const char* other : {"b", "c", "loss"}) {
    request.steering.apart = {{"a", other}};
    made_apart(model, request);
  }
  request.steering.apart = {{"a", "b"}, {"a", "c"}, {"a", "loss"}};  // the others are three
  EXPECT_THAT(message_of([&] { made(model, request); }), HasSubstr("--apart"));
}

// Lists of several operators, on as many workers as leave none of another list there.
TEST(TogetherAndApart, OfListsInSeveralStages) {
  const Model model = make_zoo_model("lenet5");
  for (const int workers : {2, 3}) {
    PlanRequest request = request_of(Cut::kLayer, workers);
    request.steering.stages_per_worker = 2;
    request.steering.apart = {{"conv*", "fc*"}};
    const Plan plan = made(model, request);
    for (const char* conv : {"conv1", "conv2"})
      for (const char* fc : {"fc1", "fc2", "fc3"})
        EXPECT_NE(worker_of(model, plan, conv), worker_of(model, plan, fc)) << conv << " " << fc;
  }
}

// They take stages that there are, or more of them, where what is placed goes out and back.
TEST(TogetherAndApart, AreKeptInACycleOfPlaces) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.steering.places = {{"conv1", 0}, {"conv2", 1}, {"fc1", 0}};
  for (const char* first : {"conv1", "relu1", "pool1", "conv2"})
    for (const char* second : {"fc2", "fc3"}) {
      request.steering.apart = {{first, second}};
      const Plan plan = made_apart(model, request);
      for (const PlaceRule& rule : request.steering.places)
        EXPECT_EQ(worker_of(model, plan, rule.pattern), rule.worker) << rule.pattern;
    }
  request.steering.apart = {{"conv1", "fc1"}};  // both are placed on worker 0
  EXPECT_THAT(message_of([&] { made(model, request); }), HasSubstr("--apart"));
}

// What fits may be another division than the best of all, and is found where they are many.
TEST(TogetherAndApart, AreKeptUnderACapOfMemory) {
  const Model model = make_zoo_model("mlp", {{64, 20, 40, 16, 48, 16, 12, 60, 14, 50, 12, 10}});
  for (const auto& [first, second] : {std::pair("fc4", "fc5"), std::pair("relu5", "relu6")}) {
    PlanRequest request = request_of(Cut::kLayer, 2);
    request.steering.stages_per_worker = 2;
    request.steering.apart = {{first, second}};
    int64_t most = 0;
    for (const WorkerPrediction& worker : made_apart(model, request).workers)
      most = std::max(most, worker.peak_bytes);
    request.memory = most - most / 8;
    for (const WorkerPrediction& worker : made_apart(model, request).workers)
      EXPECT_LE(worker.peak_bytes, *request.memory);
  }
}

// Whoever has nothing placed on it needs an operator that has no place.
TEST(Places, ThatLeaveAWorkerNothingNameIt) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 4);
  request.steering.places = {{"*", 2}, {"fc1", 0}};
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("--place"), HasSubstr("worker 1 and 3"), HasSubstr("--workers")));
}

// A worker that nothing is placed on stands within what another has, if it can stand nowhere else.
TEST(Places, LeaveRoomWithinAWorkersOperators) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.steering.places = {{"*", 0}, {"fc2", 1}};
  const Plan plan = made(model, request);
  EXPECT_THAT(plan.binding, ElementsAre(0, 1, 0));
  request.steering.places = {{"fc1", 0}, {"loss", 0}};  // the first and the last
  EXPECT_THAT(made(model, request).binding, ElementsAre(0, 1, 0));
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
