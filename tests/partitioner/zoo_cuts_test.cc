// Every model of the zoo, narrow and of small images, and a recurrence of two directions, under
// every way to divide operators: feature, batch and hybrid cuts, the free cut by space, and groups
// by sample and by feature. Steps of training are those of the model that is not cut: losses within
// 1e-5, the gradients of the first step within 1e-4 of their norm; or, where rounding is amplified
// (many batch normalisations of few samples), within four times the uncut model's greatest distance
// from float64 over five batches, of Kerf and of PyTorch, as zoo_distances.py finds it.
//
// Where that is much, a wrong gradient could hide in it. So models of many batch normalisations are
// trained once more with statistics that are constants, which amplify nothing: the gradient of each
// parameter is within 1e-5 of its own norm.
//
// The pairwise sample has every pair of model and cut, model and number of workers, cut and number
// of workers at least once, of two steps of one micro-batch; but a model of many operators is cut
// once. KERF_ZOO_CUTS=all in the environment takes all combinations, of three steps of two.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/cuts/groups.h"
#include "partitioner/rewrite.h"
#include "tests/partitioner/narrow_zoo.h"
#include "tests/partitioner/part_runner.h"

namespace kerf::partitioner {
namespace {

constexpr int kManyNodes = 150;
constexpr std::array kWorkers = {2, 3, 4, 5, 8};
constexpr std::array kCuts = {"feature", "batch", "hybrid", "space", "groups"};

bool takes_all() {
  const char* said = std::getenv("KERF_ZOO_CUTS");
  return said != nullptr && std::string(said) == "all";
}

int steps() { return takes_all() ? kNarrowSteps : 2; }

// Rows of the step's micro-batches: of each at least as many as workers.
std::vector<int64_t> sizes() {
  return takes_all() ? std::vector<int64_t>{kNarrowRows, kNarrowRows - 1}
                     : std::vector<int64_t>{kNarrowRows};
}

// An LSTM of both directions, read by position.
Model both_directions() {
  constexpr int64_t kUnits = 10;
  Builder b("both-directions");
  const ops::Initializer start{ops::Initializer::Kind::kUniform, 0.5};
  const ValueId x = b.linear(b.input("x", {ops::kBatch, 3, 4}), 6, "embedding");
  const std::vector<ValueId> inputs{x, b.parameter("w", {2, 4 * kUnits, 6}, start),
                                    b.parameter("r", {2, 4 * kUnits, kUnits}, start),
                                    b.parameter("b", {2, 8 * kUnits}, start)};
  const auto y = b.nodes("LSTM", inputs,
                         {{"hidden_size", kUnits},
                          {"direction", std::string("bidirectional")},
                          {"layout", int64_t{1}}},
                         1, "lstm");
  b.loss(b.gemm(b.flatten(y[0], "flatten"), 12, "scores"));
  return b.build();
}

// The zoo's, and one more.
Model model_of(size_t row) { return row < zoo().size() ? narrow(zoo()[row]) : both_directions(); }

struct Trained {
  std::vector<std::vector<float>> losses;  // by step, by micro-batch
  StepResult::Tensors gradients;           // of the first step
};

Trained train(const Model& model, const Plan& plan, int steps) {
  PartRunner runner(model, plan, {.backward = Backward::kTogether, .rate = kNarrowRate});
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    StepResult result = runner.run(sizes());
    trained.losses.push_back(std::move(result.losses));
    if (step == 0) trained.gradients = std::move(result.gradients);
  }
  EXPECT_THAT(runner.faults(), ::testing::IsEmpty());
  return trained;
}

double norm_of(const StepResult::Tensors& tensors) {
  double sum = 0;
  for (const auto& [name, tensor] : tensors)
    for (const float each : tensor) sum += double{each} * each;
  return std::sqrt(sum);
}

double distance(const StepResult::Tensors& a, const StepResult::Tensors& b) {
  double sum = 0;
  for (const auto& [name, tensor] : b) {
    const auto found = a.find(name);
    if (found == a.end() || found->second.size() != tensor.size()) return INFINITY;
    for (size_t i = 0; i < tensor.size(); ++i) {
      const double apart = double{found->second[i]} - tensor[i];
      sum += apart * apart;
    }
  }
  return std::sqrt(sum);
}

PlanRequest request_of(Cut cut, int workers) {
  PlanRequest request;
  request.cut = cut;
  request.workers = workers;
  request.micro_batches = static_cast<int>(sizes().size());
  request.batch = takes_all() ? 2 * kNarrowRows - 1 : kNarrowRows;
  return request;
}

Plan plan_of(const Model& model, const PlanRequest& request) {
  return std::get<Plan>(make_plan(model, request, *hold_everything()));
}

struct Divided {
  Model model;  // rewritten
  Plan plan;
};

// The first half of the layers by sample, the others by feature.
Divided in_groups(const Model& model, int workers) {
  const PlanRequest request = request_of(Cut::kHybrid, workers);
  const int layers = static_cast<int>(layers_of(model).size());
  const int of_first = (workers + 1) / 2;
  const Groups groups{{layers / 2, {of_first, of_first > 1 ? Way::kSample : Way::kFeature}},
                      {layers, {workers - of_first, Way::kFeature}}};
  Model made = rewritten(model, rewrites_of_groups(model, request, groups));
  const Assignment assignment = assigned_to_groups(made, request, groups, 0);
  Plan plan = assigned_plan(made, request, *hold_everything(), assignment);
  return {std::move(made), std::move(plan)};
}

Divided divided(const Model& model, const std::string& cut, int workers) {
  if (cut == "groups") return in_groups(model, workers);
  const PlanRequest request = request_of(cut == "space" ? Cut::kFree : parse_cut(cut), workers);
  Model made = model_for(model, request);
  Plan plan = plan_of(made, request);
  return {std::move(made), std::move(plan)};
}

// How far from float64 the uncut model is: its losses, step by step, and its gradients by their
// norm.
struct Distances {
  std::array<double, kNarrowSteps> losses{};
  double gradients = 0;
};

Distances distances_of(const std::string& model) {
  std::ifstream table(KERF_ZOO_DISTANCES);
  for (std::string line; std::getline(table, line);) {
    std::istringstream row(line);
    std::string name;
    Distances found;
    row >> name;
    for (double& each : found.losses) row >> each;
    if (row >> found.gradients && name == model) return found;
  }
  ADD_FAILURE() << model << " is not in " KERF_ZOO_DISTANCES;
  return {};
}

// What is not of the zoo is held to the least.
Distances distances_of(size_t row) {
  return row < zoo().size() ? distances_of(std::string(zoo()[row].name)) : Distances{};
}

// The uncut model, and how far from it others may be.
class Uncut {
 public:
  Uncut(const Model& model, const Distances& distances)
      : trained_(train(model, plan_of(model, request_of(Cut::kLayer, 1)), steps())),
        distances_(distances) {}

  void expect_equal(const Trained& got) const {
    for (size_t step = 0; step < trained_.losses.size(); ++step)
      for (size_t m = 0; m < trained_.losses[step].size(); ++m) {
        const double loss = trained_.losses[step][m];
        EXPECT_NEAR(got.losses[step][m], loss,
                    std::max(1e-5 * std::max(1.0, std::abs(loss)), 4 * distances_.losses[step]))
            << "loss of step " << step << ", micro-batch " << m;
      }
    const double norm = norm_of(trained_.gradients);
    EXPECT_LE(distance(got.gradients, trained_.gradients),
              std::max(1e-4, 4 * distances_.gradients) * norm)
        << "gradients, of norm " << norm;
  }

 private:
  const Trained trained_;
  const Distances distances_;
};

struct Combination {
  size_t cut = 0;
  size_t workers = 0;
};

// Of model number `row`: every cut and every number of workers, each pair of them with some model.
std::vector<Combination> combinations(size_t row, int nodes) {
  std::vector<Combination> result;
  if (takes_all()) {
    for (size_t cut = 0; cut < kCuts.size(); ++cut)
      for (size_t workers = 0; workers < kWorkers.size(); ++workers)
        result.push_back({cut, workers});
    return result;
  }
  if (nodes > kManyNodes) return {{row % kCuts.size(), 1 + row % 2}};
  for (size_t workers = 0; workers < kWorkers.size(); ++workers)
    result.push_back({(workers + row) % kCuts.size(), workers});
  return result;
}

class ZooCuts : public ::testing::TestWithParam<size_t> {};

TEST_P(ZooCuts, TrainAsTheUncutModelDoes) {
  const Model model = model_of(GetParam());
  const Uncut uncut(model, distances_of(GetParam()));
  for (const Combination& each : combinations(GetParam(), model.nodes())) {
    const int workers = kWorkers[each.workers];
    SCOPED_TRACE(format("{}: {} over {} workers", model.name(), kCuts[each.cut], workers));
    const auto [made, plan] = divided(model, kCuts[each.cut], workers);
    EXPECT_THAT(validate(made, plan), ::testing::IsEmpty());
    uncut.expect_equal(train(made, plan, steps()));
  }
}

constexpr int kManyNormalisations = 10;

int normalisations(const Model& model) {
  int count = 0;
  for (NodeId id = 0; id < model.nodes(); ++id)
    count += model.node(id).op == "BatchNormalization" ? 1 : 0;
  return count;
}

// The same model, whose batch normalisations take their running statistics as they are.
Model with_frozen_statistics(const Model& model) {
  Model to(model.name());
  std::vector<ValueId> known(static_cast<size_t>(model.values()), -1);
  const auto copied = [&](ValueId value) {
    ValueId& copy = known[static_cast<size_t>(value)];
    const Value& from = model.value(value);
    if (copy < 0)
      copy = from.role == Role::kInput ? to.add_input(from.name, from.spec)
             : from.role == Role::kLabel
                 ? to.add_label(from.name, from.spec)
                 : to.add_parameter(from.name, from.spec, from.initializer,
                                    from.role == Role::kState ? Role::kFrozen : from.role);
    return copy;
  };
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const Node& node = model.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId value : node.inputs) inputs.push_back(copied(value));
    ops::Attributes attributes = node.attributes;
    const bool freezes = attributes.erase("training_mode") > 0;
    const int outputs = freezes ? 1 : static_cast<int>(node.outputs.size());
    const NodeId copy = to.add_node(node.name, node.op, attributes, inputs, outputs);
    for (int i = 0; i < outputs; ++i)
      known[static_cast<size_t>(node.outputs[static_cast<size_t>(i)])] =
          to.node(copy).outputs[static_cast<size_t>(i)];
  }
  return to;
}

TEST_P(ZooCuts, GiveEachParameterItsGradient) {
  const Model trained = model_of(GetParam());
  if (normalisations(trained) < kManyNormalisations) GTEST_SKIP() << "rounding shows it all";
  const Model model = with_frozen_statistics(trained);
  const Trained uncut = train(model, plan_of(model, request_of(Cut::kLayer, 1)), 1);
  for (const Combination& each : combinations(GetParam(), model.nodes())) {
    const int workers = kWorkers[each.workers];
    SCOPED_TRACE(format("{}: {} over {} workers", model.name(), kCuts[each.cut], workers));
    const auto [made, plan] = divided(model, kCuts[each.cut], workers);
    const Trained got = train(made, plan, 1);
    for (const auto& [name, gradient] : uncut.gradients) {
      const StepResult::Tensors one{{name, gradient}};
      EXPECT_LE(distance(got.gradients, one), 1e-5 * norm_of(one)) << name;
    }
  }
}

TEST_P(ZooCuts, LeaveNothingWholeOnOneOfSeveral) {
  const Model model = model_of(GetParam());
  for (const int workers : kWorkers) {
    const PlanRequest request = request_of(Cut::kFeature, workers);
    const Model made = model_for(model, request);
    const Assignment assignment = cut_feature(made, request);
    for (NodeId node = 0; node < made.nodes(); ++node)
      EXPECT_GT(assignment.division.nodes[static_cast<size_t>(node)].shares.size(), 1U)
          << made.node(node).name << " over " << workers;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooCuts, ::testing::Range(size_t{0}, zoo().size() + 1),
                         [](const auto& each) {
                           std::string name(each.param < zoo().size() ? zoo()[each.param].name
                                                                      : "both-directions");
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kerf::partitioner
