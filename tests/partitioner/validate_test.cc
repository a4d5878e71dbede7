// Validation: sound plans have no problems, and each way of breaking one is named.
#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "partitioner/builder.h"
#include "schedmp/schedules.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::plan_of;
using testing::request_of;
using testing::sample_plans;
using testing::skip_model;
using testing::small_mlp;

TEST(Validate, AcceptsWhatTheCutsMake) {
  for (const auto& [model, plan] : sample_plans())
    EXPECT_THAT(validate(model, plan), IsEmpty()) << model.name() << " " << to_string(plan.cut);
}

// What uses of one weight come to: a loss, one by way of what has no gradient, or answers alone.
enum class Ends { kLoss, kChoice, kAnswers };

// x ── in ──┬── a ──┬── sum ── relu ── c ── out
//           └── b ──┘
// a, b and c have one weight; those that are divided in different ways need different boxes of it.
Model tied_uses(Ends ends) {
  Builder b(ends == Ends::kLoss ? "loss" : ends == Ends::kChoice ? "choice" : "answers");
  const ValueId h = b.relu(b.gemm(b.input("x", {ops::kBatch, 12}), 16, "in"), "in_relu");
  const ValueId w = b.parameter("w", {16, 16}, {ops::Initializer::Kind::kUniform, 0.5});
  const ValueId sum = b.add(b.matmul(h, w, "a"), b.matmul(h, w, "b"), "sum");
  const ValueId out = b.gemm(b.matmul(b.relu(sum, "relu"), w, "c"), 10, "out");
  if (ends == Ends::kLoss) b.loss(out);
  if (ends == Ends::kChoice) {
    const ValueId best = b.node("ArgMax", {out}, {{"axis", int64_t{1}}}, "best");
    const ValueId number = b.node("Cast", {best}, {{"to", int64_t{1}}}, "number");
    b.loss(b.add(b.gemm(h, 10, "scores"), number, "scores_and_number"));
  }
  return b.build();
}

// By each cut, over groups of equal and of unequal size, and as unequal shares say.
std::vector<PlanRequest> requests_of_tied_uses(const std::string& schedule) {
  std::vector<PlanRequest> requests;
  for (size_t row = 0; row < cuts().size(); ++row)
    for (const int workers : {2, 3, 4}) {
      PlanRequest request = request_of(static_cast<Cut>(row), workers);
      request.schedule = schedule;
      request.trains = schedmp::in_flight_of(schedule)->trains();
      if (request.cut == Cut::kFree)
        request.shares = R"({"kerf_shares": 1, "shares": {
            "a": {"0": {"columns": "0-4"}, "1": {"columns": "5-15"}},
            "b": {"1": "all"}, "c": {"0": {"inner": "0-2"}, "1": {"inner": "3-15"}}}})";
      requests.push_back(request);
      if (request.cut != Cut::kHybrid || workers < 3) continue;
      request.stages = 3;
      requests.push_back(std::move(request));
    }
  return requests;
}

// With and without gradients: what is written passes the check that reads it.
TEST(Validate, AcceptsPlansOfTiedWeightsThatAreReadInOverlappingBoxes) {
  std::map<Ends, int> overlaps;
  for (const Ends ends : {Ends::kLoss, Ends::kChoice, Ends::kAnswers})
    for (const std::string schedule : {"1f1b", "forward-only"}) {
      if (ends == Ends::kAnswers && schedule == "1f1b") continue;  // nothing to train
      for (const PlanRequest& request : requests_of_tied_uses(schedule)) {
        SCOPED_TRACE(format("{}, {} over {}, {}", tied_uses(ends).name(), to_string(request.cut),
                            request.workers, schedule));
        const Model model = model_for(tied_uses(ends), request);
        const Plan plan =
            std::get<Plan>(make_plan(model, request, *schedmp::in_flight_of(schedule)));
        EXPECT_THAT(validate(model, plan), IsEmpty());
        EXPECT_EQ(read_plan(model, write_plan(model, plan), "plan.json"), plan);
        const ValueId w = model.find_value("w");
        const auto& homes = plan.layouts[static_cast<size_t>(w)];
        overlaps[ends] += !ops::check_layout(homes, model.value(w).spec.shape).empty();
      }
    }
  EXPECT_EQ(overlaps[Ends::kLoss], 0) << "homes are disjoint, or replicas";
  EXPECT_GT(overlaps[Ends::kChoice], 0) << "each part has what it reads";
  EXPECT_GT(overlaps[Ends::kAnswers], 0) << "each part has what it reads";
}

// Each part has what it reads of the weight, which nothing changes.
TEST(Validate, NothingTravelsOfAWeightThatHasNoGradient) {
  const Model model = tied_uses(Ends::kAnswers);
  const ValueId w = model.find_value("w");
  for (const PlanRequest& request : requests_of_tied_uses("forward-only")) {
    const Plan plan =
        std::get<Plan>(make_plan(model, request, *schedmp::in_flight_of("forward-only")));
    for (const Route& route : plan.routes) EXPECT_NE(route.value, w) << to_string(request.cut);
  }
}

class Broken : public ::testing::Test {
 protected:
  std::vector<std::string> problems(const std::function<void(Plan&)>& change) const {
    Plan plan = plan_;
    change(plan);
    return validate(model_, plan);
  }

  Model model_ = skip_model();
  Plan plan_ = plan_of(model_, request_of(Cut::kLayer, 3));
};

TEST_F(Broken, Header) {
  EXPECT_THAT(problems([](Plan& p) { p.model = "other"; }), Contains(HasSubstr("other")));
  EXPECT_THAT(problems([](Plan& p) { p.fingerprint = "0"; }), Contains(HasSubstr("skip")));
  EXPECT_THAT(problems([](Plan& p) { p.batch = 0; }), Contains(HasSubstr("batch")));
  EXPECT_THAT(problems([](Plan& p) { p.micro_batches = 0; }), Contains(HasSubstr("micro-batches")));
  EXPECT_THAT(problems([](Plan& p) { p.schedule = ""; }), Contains(HasSubstr("schedule")));
  EXPECT_THAT(problems([](Plan& p) { p.bound = 0.0 / 0.0; }), Contains(HasSubstr("finite")));
}

// What was decided is judged alone: nothing that follows from it need be there.
TEST_F(Broken, Decisions) {
  Plan plan = plan_;
  for (ValueId value = 0; value < model_.values(); ++value)
    if (model_.value(value).role != Role::kActivation)
      plan.layouts[static_cast<size_t>(value)] = {};
  plan.routes.clear();
  plan.workers.clear();
  EXPECT_THAT(validate_decisions(model_, plan), IsEmpty());
  EXPECT_THAT(validate(model_, plan), Not(IsEmpty()));
  plan.stages[1].parts.clear();
  EXPECT_THAT(validate_decisions(model_, plan), Contains("stage 1 has no parts"));
}

TEST_F(Broken, Binding) {
  EXPECT_THAT(problems([](Plan& p) { p.binding = {0, 1, -1}; }), Contains(HasSubstr("worker -1")));
  EXPECT_THAT(problems([](Plan& p) { p.binding = {0, 1, 1024}; }), Contains(HasSubstr("1024")));
  EXPECT_THAT(problems([](Plan& p) {
                p.binding = {0, 1, 3};
              }),
              Contains(HasSubstr("bound to worker 3, but none to worker 2")));
  EXPECT_THAT(problems([](Plan& p) {
                p.binding = {0, 1, 1};
              }),
              Contains(HasSubstr("3 workers")))
      << "predictions follow the binding";
  EXPECT_THAT(problems([](Plan& p) { p.binding.resize(4097); }), Contains(HasSubstr("4097 parts")));
  EXPECT_THAT(problems([](Plan& p) { p.binding = {}; }), Contains(HasSubstr("no part")));
}

TEST_F(Broken, IdleParts) {
  EXPECT_THAT(problems([](Plan& p) {
                p.binding.push_back(3);
                p.stages[1].parts.push_back(3);
              }),
              Contains("part 3 has nothing to compute"));
}

TEST_F(Broken, Stages) {
  EXPECT_THAT(problems([](Plan& p) { p.stages[0].nodes.pop_back(); }),
              Contains(HasSubstr("is in no stage")));
  EXPECT_THAT(problems([](Plan& p) { p.stages[1].nodes.push_back(p.stages[2].nodes.back()); }),
              Contains(HasSubstr("must be in one")));
  EXPECT_THAT(problems([](Plan& p) { p.stages[0].nodes.push_back(p.stages[0].nodes.back()); }),
              Contains(HasSubstr("is in stage 0 2 times")));
  EXPECT_THAT(problems([](Plan& p) { p.stages[1].nodes.push_back(99); }),
              Contains(HasSubstr("number 99")));
  EXPECT_THAT(problems([](Plan& p) { p.stages[1].parts = {}; }), Contains(HasSubstr("no parts")));
  EXPECT_THAT(problems([](Plan& p) { p.stages[1].parts = {1, 1}; }), Contains(HasSubstr("twice")));
  EXPECT_THAT(problems([](Plan& p) { p.stages[1].parts = {8}; }), Contains(HasSubstr("part 8")));
  EXPECT_THAT(problems([](Plan& p) {
                p.stages[1].parts = {1, 0};
              }),
              Contains(HasSubstr("part 0 is in stages 0 and 1")));
  EXPECT_THAT(problems([](Plan& p) { p.stages.clear(); }), Contains(HasSubstr("no stages")));
}

TEST_F(Broken, StageGraph) {
  EXPECT_THAT(problems([](Plan& p) { std::swap(p.stages[0], p.stages[2]); }),
              Contains(HasSubstr("numbered in the order")));
  EXPECT_THAT(problems([](Plan& p) {  // b between a and sum, which are together
                p.stages = {{{0, 1, 4, 5, 6}, {0}}, {{2}, {1}}, {{3}, {2}}};
              }),
              Contains(HasSubstr("cycle")));
}

TEST_F(Broken, Layouts) {
  const auto value = static_cast<size_t>(model_.find_value("a_relu.output"));
  EXPECT_THAT(problems([](Plan& p) { p.layouts.pop_back(); }), Contains(HasSubstr("layouts for")));
  EXPECT_THAT(problems([&](Plan& p) { p.layouts[value].shares.clear(); }),
              Contains(HasSubstr("a_relu.output")));
  EXPECT_THAT(problems([&](Plan& p) { p.layouts[value].shares[0].part = 42; }),
              Contains(HasSubstr("part 42")));
  EXPECT_THAT(problems([&](Plan& p) {
                p.layouts[value].shares[0].box.axes[1] = ops::IndexSet::range(0, 4);
              }),
              Contains(HasSubstr("a_relu.output")));
  const auto weight = static_cast<size_t>(model_.find_value("b.weight"));
  EXPECT_THAT(problems([&](Plan& p) {
                p.layouts[weight] = ops::Layout::replicated({0, 1, 2}, 2);
              }),
              Contains(HasSubstr("b.weight")));
}

TEST_F(Broken, Routes) {
  EXPECT_THAT(problems([](Plan& p) { p.routes.pop_back(); }), Contains(HasSubstr("is missing")));
  EXPECT_THAT(problems([](Plan& p) { p.routes.push_back(p.routes.front()); }),
              Contains(HasSubstr("twice")));
  EXPECT_THAT(problems([](Plan& p) { std::swap(p.routes.front().from, p.routes.front().to); }),
              Contains(HasSubstr("carries nothing")));
  EXPECT_THAT(problems([](Plan& p) { p.routes.front().value = 1000; }),
              Contains(HasSubstr("1000")));
  EXPECT_THAT(problems([](Plan& p) { p.routes.front().pieces.clear(); }),
              Contains(HasSubstr("differs")));
}

TEST_F(Broken, Predictions) {
  EXPECT_THAT(problems([](Plan& p) { p.workers[1].peak_bytes = -1; }),
              Contains("worker 1 is predicted less than nothing"));
  EXPECT_THAT(problems([](Plan& p) { p.workers.pop_back(); }), Contains(HasSubstr("2 workers")));
  EXPECT_THAT(problems([](Plan& p) { ++p.workers[1].bytes_in; }), Contains(HasSubstr("worker 1")));
  EXPECT_THAT(problems([](Plan& p) { p.workers[2].worker = 0; }),
              Contains(HasSubstr("of worker 0")));
}

TEST_F(Broken, AllProblemsAreListed) {
  EXPECT_GE(problems([](Plan& p) {
              p.model = "other";
              p.batch = -1;
              p.binding = {1};
              p.stages[0].nodes.clear();
            }).size(),
            4u);
}

}  // namespace
}  // namespace kerf::partitioner
