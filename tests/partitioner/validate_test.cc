// Validation: sound plans have no problems, and each way of breaking one is named.
#include <gmock/gmock.h>

#include <functional>

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
