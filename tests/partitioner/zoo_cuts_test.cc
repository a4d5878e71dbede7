// Every model of the zoo, narrow and of small images, and a recurrence of two directions, under
// every way to divide operators: feature, batch and hybrid cuts, the free cut by space, and groups
// by sample and by feature. Steps of training are those of the model that is not cut. Losses within
// 1e-5, the gradients of the first step within 1e-4 of their norm; or, where rounding is amplified
// (many batch normalisations of few samples), within four times what a change of the parameters'
// last places does to the uncut model.
//
// The pairwise sample has every pair of model and cut, model and number of workers, cut and number
// of workers at least once, of two steps of one micro-batch; but a model of many operators is cut
// once. KERF_ZOO_CUTS=all in the environment takes all combinations, of three steps of two.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/cuts/groups.h"
#include "partitioner/rewrite.h"
#include "partitioner/zoo.h"
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

int steps() { return takes_all() ? 3 : 2; }

// Rows of the step's micro-batches: of each at least as many as workers.
std::vector<int64_t> sizes() {
  return takes_all() ? std::vector<int64_t>{9, 8} : std::vector<int64_t>{9};
}

// The smallest images that a network makes something of.
int64_t smallest_image(const std::string& name) {
  if (name == "inception-v3") return 75;
  if (name == "bvlc-alexnet") return 67;
  if (name == "alexnet" || name == "inception-v1" || name == "squeezenet") return 64;
  return 32;
}

Model narrow(const ZooModel& row) {
  ZooOptions options{.width = 0.125};
  if (row.images) {
    options.image = smallest_image(std::string(row.name));
    options.classes = 20;
  }
  return make_zoo_model(std::string(row.name), options);
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

Trained train(const Model& model, const Plan& plan, uint32_t perturbed = 0) {
  PartRunner runner(model, plan,
                    {.backward = Backward::kTogether, .rate = 0.001F, .perturbed = perturbed});
  Trained trained;
  for (int step = 0; step < steps(); ++step) {
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
  request.batch = takes_all() ? 17 : 9;
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

// How far apart two trainings are: by losses, step by step, and by gradients.
struct Apart {
  std::vector<std::vector<double>> losses;
  double gradients = 0;
};

Apart apart(const Trained& a, const Trained& b) {
  Apart result;
  for (size_t step = 0; step < b.losses.size(); ++step) {
    std::vector<double>& losses = result.losses.emplace_back();
    for (size_t m = 0; m < b.losses[step].size(); ++m)
      losses.push_back(std::abs(double{a.losses[step][m]} - b.losses[step][m]));
  }
  result.gradients = distance(a.gradients, b.gradients);
  return result;
}

// The uncut model, and how far from it others may be.
class Uncut {
 public:
  explicit Uncut(const Model& model)
      : model_(model),
        plan_(partitioner::plan_of(model, request_of(Cut::kLayer, 1))),
        trained_(train(model, plan_)) {}

  void expect_equal(const Trained& got) {
    const Apart found = apart(got, trained_);
    for (size_t step = 0; step < found.losses.size(); ++step)
      for (size_t m = 0; m < found.losses[step].size(); ++m) {
        const double least = 1e-5 * std::max(1.0, std::abs(double{trained_.losses[step][m]}));
        if (found.losses[step][m] <= least) continue;
        EXPECT_LE(found.losses[step][m], 4 * amplified().losses[step][m])
            << "loss of step " << step << ", micro-batch " << m;
      }
    const double norm = norm_of(trained_.gradients);
    if (found.gradients <= 1e-4 * norm) return;
    EXPECT_LE(found.gradients, 4 * amplified().gradients) << "gradients, of norm " << norm;
  }

 private:
  // What the parameters' last places do, at most.
  const Apart& amplified() {
    while (seeds_ < 5) {
      const Apart found = apart(train(model_, plan_, ++seeds_), trained_);
      if (seeds_ == 1) amplified_ = found;
      amplified_.gradients = std::max(amplified_.gradients, found.gradients);
      for (size_t step = 0; step < found.losses.size(); ++step)
        for (size_t m = 0; m < found.losses[step].size(); ++m)
          amplified_.losses[step][m] = std::max(amplified_.losses[step][m], found.losses[step][m]);
    }
    return amplified_;
  }

  const Model& model_;
  Plan plan_;
  Trained trained_;
  uint32_t seeds_ = 0;  // of amplified_
  Apart amplified_;
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
  Uncut uncut(model);
  for (const Combination& each : combinations(GetParam(), model.nodes())) {
    const int workers = kWorkers[each.workers];
    SCOPED_TRACE(format("{}: {} over {} workers", model.name(), kCuts[each.cut], workers));
    const auto [made, plan] = divided(model, kCuts[each.cut], workers);
    EXPECT_THAT(validate(made, plan), ::testing::IsEmpty());
    uncut.expect_equal(train(made, plan));
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
