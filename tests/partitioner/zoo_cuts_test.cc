// Every model of the zoo, narrow and of small images, under every cut that divides operators: three
// steps of training are those of the model that is not cut. Losses within 1e-5, the gradients of
// the first step within 1e-4 of their norm; or, where rounding is amplified (many batch
// normalisations of few samples), within four times the uncut model's greatest distance from
// float64 over five batches, of Kerf and of PyTorch, as zoo_distances.py finds it.
//
// The pairwise sample has every pair of model and cut, model and number of workers, cut and number
// of workers at least once, of one micro-batch, but for models of many operators, which have 2, 4
// and 8 workers; KERF_ZOO_CUTS=all in the environment takes all combinations, of two.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "partitioner/cut.h"
#include "tests/partitioner/narrow_zoo.h"
#include "tests/partitioner/part_runner.h"

namespace kerf::partitioner {
namespace {

constexpr int kManyNodes = 300;
constexpr std::array kWorkers = {2, 3, 4, 5, 8};
constexpr std::array kCuts = {Cut::kFeature, Cut::kBatch, Cut::kHybrid};

bool takes_all() {
  const char* said = std::getenv("KERF_ZOO_CUTS");
  return said != nullptr && std::string(said) == "all";
}

// Rows of the step's micro-batches: of each at least as many as workers.
std::vector<int64_t> sizes() {
  return takes_all() ? std::vector<int64_t>{kNarrowRows, kNarrowRows - 1}
                     : std::vector<int64_t>{kNarrowRows};
}

struct Trained {
  std::vector<std::vector<float>> losses;  // by step, by micro-batch
  StepResult::Tensors gradients;           // of the first step
};

Trained train(const Model& model, const Plan& plan) {
  PartRunner runner(model, plan, {.backward = Backward::kTogether, .rate = kNarrowRate});
  Trained trained;
  for (int step = 0; step < kNarrowSteps; ++step) {
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

// The uncut model, and how far from it others may be.
class Uncut {
 public:
  Uncut(const Model& model, const std::string& name)
      : trained_(train(model, plan_of(model, request_of(Cut::kLayer, 1)))),
        distances_(distances_of(name)) {}

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
  for (size_t workers = 0; workers<kWorkers.size(); workers += nodes> kManyNodes ? 2 : 1)
    result.push_back({(workers + row) % kCuts.size(), workers});
  return result;
}

class ZooCuts : public ::testing::TestWithParam<size_t> {};

TEST_P(ZooCuts, TrainAsTheUncutModelDoes) {
  const Model model = narrow(zoo()[GetParam()]);
  const Uncut uncut(model, std::string(zoo()[GetParam()].name));
  for (const Combination& each : combinations(GetParam(), model.nodes())) {
    const PlanRequest request = request_of(kCuts[each.cut], kWorkers[each.workers]);
    SCOPED_TRACE(format("{} cut by {} over {} workers", model.name(), to_string(request.cut),
                        request.workers));
    const Model made = model_for(model, request);
    const Plan plan = plan_of(made, request);
    EXPECT_THAT(validate(made, plan), ::testing::IsEmpty());
    uncut.expect_equal(train(made, plan));
  }
}

TEST_P(ZooCuts, LeaveNothingWholeOnOneOfSeveral) {
  const Model model = narrow(zoo()[GetParam()]);
  for (const int workers : kWorkers) {
    const PlanRequest request = request_of(Cut::kFeature, workers);
    const Model made = model_for(model, request);
    const Assignment assignment = cut_feature(made, request);
    for (NodeId node = 0; node < made.nodes(); ++node)
      EXPECT_GT(assignment.division.nodes[static_cast<size_t>(node)].shares.size(), 1U)
          << made.node(node).name << " over " << workers;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooCuts, ::testing::Range(size_t{0}, zoo().size()),
                         [](const auto& each) {
                           std::string name(zoo()[each.param].name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kerf::partitioner
