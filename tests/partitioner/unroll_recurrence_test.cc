// Recurrences divided by hidden units: a cell a step computes what the node does, whole or divided,
// and weights, their gradients and states lie with their units.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "partitioner/builder.h"
#include "partitioner/rewrite.h"
#include "partitioner/sources.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/random_cut.h"
#include "tests/partitioner/rewritten_plans.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;

// Samples first or steps first, one direction or both, from given states or from zeros; all that
// it gives is read.
struct RecurrenceCase {
  std::string op = "LSTM";
  std::string direction = "forward";
  int64_t layout = 1;
  bool initial = false;
  bool bias = true;
  ops::Attributes more = {};
};

std::string row_of(const RecurrenceCase& scene) {
  return scene.op == "LSTM" ? "unroll-lstm" : scene.op == "GRU" ? "unroll-gru" : "unroll-rnn";
}

//   x [N, 4, 3] ── Gemm by position ── rnn ── Y, Y_h, Y_c ── scores of 4 classes ── loss
Model recurrence(const RecurrenceCase& scene) {
  constexpr int64_t kUnits = 5;
  constexpr int64_t kSteps = 4;
  const int64_t d = scene.direction == "bidirectional" ? 2 : 1;
  const int64_t g = scene.op == "LSTM" ? 4 : scene.op == "GRU" ? 3 : 1;
  Builder b("recurrence");
  const bool first = scene.layout == 1;
  const auto turned = [&](ValueId x, const std::string& name) {
    return b.node("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}}, name);
  };
  const ops::Initializer start{ops::Initializer::Kind::kUniform, 0.5};
  ValueId x = b.linear(b.input("x", {ops::kBatch, kSteps, 3}), 4, "embedding");
  if (!first) x = turned(x, "steps_first");
  std::vector<ValueId> inputs{x, b.parameter("w", {d, g * kUnits, 4}, start),
                              b.parameter("r", {d, g * kUnits, kUnits}, start),
                              scene.bias ? b.parameter("b", {d, 2 * g * kUnits}, start) : -1, -1};
  for (int state = 0; scene.initial && state < (scene.op == "LSTM" ? 2 : 1); ++state) {
    const ValueId of = b.linear(b.input(format("x{}", state), {ops::kBatch, d, 2}), kUnits,
                                format("state{}", state));
    inputs.push_back(first ? of : turned(of, format("state{}.turned", state)));
  }
  while (inputs.back() < 0) inputs.pop_back();
  ops::Attributes attributes = scene.more;
  attributes["hidden_size"] = kUnits;
  attributes["direction"] = scene.direction;
  attributes["layout"] = scene.layout;
  const int outputs = scene.op == "LSTM" ? 3 : 2;
  const auto given = b.nodes(scene.op, inputs, attributes, outputs, "rnn");
  ValueId scores = -1;
  for (size_t i = 0; i < given.size(); ++i) {
    ValueId rows = given[i];
    const std::string name = format("output{}", i);
    if (!first)
      rows = b.node(
          "Transpose", {rows},
          {{"perm", i == 0 ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>{1, 0, 2}}},
          name + ".turned");
    const ValueId these = b.gemm(b.flatten(rows, name + ".rows"), 4, name);
    scores = i == 0 ? these : b.add(scores, these, name + ".added");
  }
  b.loss(scores);
  return b.build();
}

std::vector<RecurrenceCase> recurrence_cases() {
  const ops::Attributes linear{{"linear_before_reset", int64_t{1}}};
  return {{},
          {"LSTM", "bidirectional", 0, true, false},
          {"LSTM", "reverse", 0, false, true},
          {"LSTM", "bidirectional", 1, false, true},
          {"GRU", "forward", 1, true, true, linear},
          {"GRU", "bidirectional", 0, false, true, linear},
          {"RNN", "forward", 1, false, false},
          {"RNN",
           "bidirectional",
           1,
           true,
           true,
           {{"activations", std::vector<std::string>{"Relu", "Sigmoid"}}}}};
}

Model unrolled(const RecurrenceCase& scene) {
  return rewritten(recurrence(scene), {{row_of(scene), "rnn"}});
}

class UnrolledRecurrence : public ::testing::TestWithParam<RecurrenceCase> {};

TEST_P(UnrolledRecurrence, WholeItTrainsAsTheNodeThatItReplaces) {
  const Model plain = recurrence(GetParam());
  const Model made = unrolled(GetParam());
  expect_same_steps(run(made, plan_of(made, Cut::kLayer, 1)),
                    run(plain, plan_of(plain, Cut::kLayer, 1)), 1e-5F);
}

TEST_P(UnrolledRecurrence, AnyDivisionOfPiecesTrainsAsTheWhole) {
  const Model model = unrolled(GetParam());
  Random random(static_cast<Random::result_type>(GetParam().layout + 7));
  for (const int parts : {2, 3, 5}) {
    const Plan plan = plan_of(model, random_division(model, parts, 4, random), parts);
    const std::vector<int64_t> sizes = {4, 3, 2, 0};
    expect_close(run(model, plan, sizes), run(model, plan_of(model, Cut::kLayer, 1), sizes), 1e-4F);
  }
}

INSTANTIATE_TEST_SUITE_P(All, UnrolledRecurrence, ::testing::ValuesIn(recurrence_cases()));

// Units of any number, with gaps, and samples and directions too.
TEST_P(UnrolledRecurrence, AFreeCutDividesItByHiddenUnits) {
  const Model plain = recurrence(GetParam());
  const StepResult whole = run(plain, plan_of(plain, Cut::kLayer, 1));
  const std::string both = GetParam().direction == "bidirectional"
                               ? R"({"rnn": {"0": {"hidden units": "0-2", "directions": "0"},
                        "1": {"hidden units": "3-4", "directions": "0"},
                        "2": {"directions": "1"}}})"
                               : R"({"rnn": {"0": {"hidden units": "0-1", "samples": "0-1"},
                        "1": {"hidden units": "2-4", "samples": "0-1"},
                        "2": {"samples": "2-3"}}})";
  for (const std::string& shares :
       {std::string(R"({"rnn": {"0": {"hidden units": "0,3"}, "2": {"hidden units": "1-2,4"}},
                        "output0": {"1": "all"}})"),
        both}) {
    const Made made = made_by(plain, Cut::kFree, 3, shares);
    ASSERT_EQ(made.model.rewrites(), (std::vector<Rewrite>{{row_of(GetParam()), "rnn"}}));
    expect_same_steps(run(made.model, made.plan), whole, 1e-5F);
  }
}

// Any sets of units and of samples: a grid, each cell of it anywhere.
TEST_P(UnrolledRecurrence, AnyIndexSetsOfAFileTrainAsTheWhole) {
  const Model plain = recurrence(GetParam());
  const StepResult whole = run(plain, plan_of(plain, Cut::kLayer, 1));
  for (unsigned seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    const auto sets_of = [&](int indices) {  // of either half; neither is empty
      std::vector<std::vector<int>> sets(2);
      for (int i = 0; i < indices; ++i)
        sets[static_cast<size_t>(i < 2 ? i : draw(random, 2))].push_back(i);
      return sets;
    };
    const auto samples = sets_of(4);
    const auto units = sets_of(5);
    std::vector<std::string> shares;
    for (size_t i = 0; i < 4; ++i)
      shares.push_back(format(R"("{}": {{"samples": "{}", "hidden units": "{}"}})", (i + seed) % 4,
                              fmt::join(samples[i / 2], ","), fmt::join(units[i % 2], ",")));
    const Made made =
        made_by(plain, Cut::kFree, 4, format(R"({{"rnn": {{{}}}}})", fmt::join(shares, ", ")));
    expect_same_steps(run(made.model, made.plan), whole, 1e-5F);
  }
}

// Weights, their gradients and states are only where the share is; everything of h crosses, and
// nothing else within the layer.
TEST(UnrolledByAFreeCut, ALayersWeightsLieWithTheirHiddenUnits) {
  const Model plain = make_zoo_model("lstm-lm", {{4, 8, 6, 10}});
  const Made made =
      made_by(plain, Cut::kFree, 2,
              R"({"lstm": {"0": {"hidden units": "0-5"}, "1": {"hidden units": "6-9"}}})");
  const Sources sources(made.model, made.plan.division);
  for (const char* name : {"lstm.weight_ih", "lstm.weight_hh", "lstm.bias"}) {
    const ValueId weight = made.model.find_value(name);
    const ops::Shape shape = sources.shape(weight);
    int64_t held = 0;
    for (const int part : {0, 1}) {
      ASSERT_NE(sources.held(weight, part), nullptr);
      EXPECT_EQ(sources.held(weight, part)->box, *sources.need(weight, part)) << name;
      held += ops::local_shape(sources.held(weight, part)->box, shape).elements();
    }
    EXPECT_EQ(held, shape.elements()) << name;
  }
  std::set<std::string> crossing;
  for (const Route& route : made.plan.routes)
    if (const std::string& name = value_name(made.model, route);
        name.starts_with("lstm.forward.") || name.starts_with("lstm.weight"))
      crossing.insert(name);
  EXPECT_THAT(crossing, ::testing::IsSubsetOf({"lstm.forward.0.output", "lstm.forward.1.output",
                                               "lstm.forward.2.output", "lstm.forward.3.output"}));
  EXPECT_GE(crossing.size(), 3U);
  // However many steps use a weight, its gradient is summed in one place of each part.
  const ValueId weight = made.model.find_value("lstm.weight_hh");
  EXPECT_EQ(made.model.uses(weight).size(), 4U);
  for (const Part& part : lower(made.model, made.plan)) {
    const auto sums =
        std::count_if(part.locals.begin(), part.locals.end(), [&](const Local& local) {
          return local.value == weight && local.kind == LocalKind::kParameterGradient;
        });
    EXPECT_EQ(sums, 1);
  }
  expect_same_steps(run(made.model, made.plan), run(plain, plan_of(plain, Cut::kLayer, 1)), 1e-5F);
}

// By itself: nothing names the units, and they are spread evenly, wherever a layer's states go.
TEST(UnrolledByAFeatureCut, EveryPartHasItsHiddenUnits) {
  for (const Model& plain : {make_zoo_model("lstm-lm", {{4, 8, 6, 12}}),
                             make_zoo_model("seq2seq", {{3, 4, 8, 6, 12, 2}})}) {
    const StepResult whole = run(plain, plan_of(plain, Cut::kLayer, 1));
    for (const int workers : {2, 3, 4, 5}) {
      const Made made = made_by(plain, Cut::kFeature, workers);
      const Sources sources(made.model, made.plan.division);
      for (NodeId id = 0; id < made.model.nodes(); ++id) {
        EXPECT_NE(made.model.node(id).op, "LSTM");
        if (made.model.node(id).op != "RecurrentCell") continue;
        const ValueId weight = made.model.node(id).inputs[1];
        for (int part = 0; part < workers; ++part) {
          ASSERT_NE(sources.held(weight, part), nullptr);
          const int64_t rows =
              ops::local_shape(sources.held(weight, part)->box, sources.shape(weight))[1];
          EXPECT_GE(rows, 4 * (12 / workers));
          EXPECT_LE(rows, 4 * ((12 + workers - 1) / workers));
        }
      }
      expect_same_steps(run(made.model, made.plan), whole, 1e-5F);
    }
  }
}

// Two directions are too few for more workers; then everybody has units of both.
TEST(UnrolledByAFeatureCut, BothDirectionsAreDividedByHiddenUnits) {
  RecurrenceCase scene;
  scene.direction = "bidirectional";
  const Model plain = recurrence(scene);
  const StepResult whole = run(plain, plan_of(plain, Cut::kLayer, 1));
  for (const int workers : {2, 3, 4, 5}) {
    const Made made = made_by(plain, Cut::kFeature, workers);
    size_t cells = 0;
    for (NodeId id = 0; id < made.model.nodes(); ++id) {
      if (made.model.node(id).op != "RecurrentCell") continue;
      ++cells;
      EXPECT_EQ(made.plan.division.nodes[static_cast<size_t>(id)].shares.size(),
                static_cast<size_t>(workers));
    }
    EXPECT_EQ(cells, workers == 2 ? 0U : 8U);  // two have a direction each
    expect_same_steps(run(made.model, made.plan), whole, 1e-5F);
  }
}

TEST(UnrolledByAFreeCut, ARecurrenceThatDoesNotUnrollSaysWhy) {
  const auto said = [](const RecurrenceCase& scene) {
    return complaint([&] {
      made_by(recurrence(scene), Cut::kFree, 2, R"({"rnn": {"0": {"hidden units": "0-1"},
                                                            "1": {"hidden units": "2-4"}}})");
    });
  };
  EXPECT_THAT(said({"GRU"}), ::testing::AllOf(HasSubstr("shares.json: node rnn"),
                                              HasSubstr("linear_before_reset is 0")));
  EXPECT_EQ(said({}), "");
}

TEST(UnrolledByAPlan, WhatCannotBeIsNamed) {
  const auto said = [](const RecurrenceCase& scene, const Rewrite& rewrite) {
    return complaint([&] { rewritten(recurrence(scene), {rewrite}); });
  };
  EXPECT_THAT(said({}, {"unroll-lstm", "output0"}), HasSubstr("it is a Gemm, not a LSTM"));
  EXPECT_THAT(said({}, {"unroll-gru", "rnn"}), HasSubstr("it is a LSTM, not a GRU"));
  EXPECT_THAT(said({}, {"unroll-lstm", "rnn", {1}}),
              HasSubstr("node rnn: unroll-lstm cannot rewrite it: its rewrite has no num"));
  EXPECT_THAT(said({"GRU"}, {"unroll-gru", "rnn"}),
              HasSubstr("node rnn: unroll-gru cannot rewrite it: "));
}

}  // namespace
}  // namespace kerf::partitioner
