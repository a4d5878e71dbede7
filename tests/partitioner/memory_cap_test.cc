// Caps on memory: kept, and where nothing fits the smallest change that does is named.
#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <random>
#include <regex>

#include "partitioner/known_peaks.h"
#include "partitioner/least_memory.h"
#include "partitioner/stage_graph.h"
#include "partitioner/tried_plan.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using ::testing::HasSubstr;
using testing::plan_of;
using testing::request_of;
using testing::sample_models;

// Holds one micro-batch less from stage to stage, as 1F1B does.
class Descending final : public InFlight {
 public:
  std::vector<Flight> of(const Pipeline& pipeline, int micro_batches) const override {
    std::vector<Flight> flights;
    for (const int hops : hops_to_the_end(pipeline)) {
      const int kept = std::min(hops + 1, micro_batches);
      flights.push_back({kept, kept, 0});
    }
    return flights;
  }
};

Plan without_a_cap(const Model& model, const PlanRequest& request) {
  return std::get<Plan>(make_plan(model, request, Descending()));
}

TEST(MemoryCap, IsKeptAndMovesTheBoundary) {
  int kept = 0;
  for (const Model& model : sample_models())
    for (const int workers : {2, 3}) {
      PlanRequest request = request_of(Cut::kLayer, workers);
      const Plan free = std::get<Plan>(make_plan(model, request, Descending()));
      request.memory = peak_of(free) * 95 / 100;
      const auto capped = make_plan(model, request, Descending());
      if (const Plan* plan = std::get_if<Plan>(&capped)) {
        ++kept;
        EXPECT_LE(peak_of(*plan), *request.memory);
        EXPECT_GE(plan->bottleneck, free.bottleneck);
        EXPECT_NE(plan->stages, free.stages);
      }
    }
  EXPECT_GE(kept, 4);
}

TEST(MemoryCap, APlanFitsIntoWhatItSaysThatItTakes) {
  for (const Model& model : sample_models())
    for (int workers = 1; workers <= std::min(6, model.nodes()); ++workers)
      for (const SlotPlace place :
           {SlotPlace::kSender, SlotPlace::kBothEnds, SlotPlace::kExported}) {
        PlanRequest request = request_of(Cut::kLayer, workers);
        request.setting.slot_place = place;
        request.memory = peak_of(std::get<Plan>(make_plan(model, request, Descending())));
        const auto again = make_plan(model, request, Descending());
        ASSERT_TRUE(std::holds_alternative<Plan>(again)) << model.name() << " over " << workers;
        EXPECT_LE(peak_of(std::get<Plan>(again)), *request.memory);
      }
}

// Follows the advice in `change` ("--memory 52428800", ...).
PlanRequest changed(PlanRequest request, const std::string& change) {
  std::smatch match;
  EXPECT_TRUE(std::regex_match(change, match, std::regex("--([a-z-]+) ([0-9]+)"))) << change;
  const int64_t number = std::stoll(match[2]);
  if (match[1] == "memory") request.memory = number;
  if (match[1] == "workers") request.workers = static_cast<int>(number);
  if (match[1] == "micro-batches") request.micro_batches = static_cast<int>(number);
  return request;
}

TEST(MemoryCap, WhereNothingFitsTheReportNamesTheSmallestChangeThatDoes) {
  std::map<std::string, int> kinds;
  for (const Model& model : sample_models())
    for (const int workers : {1, 2, 3})
      for (const int64_t percent : {99, 40, 1}) {
        PlanRequest request = request_of(Cut::kLayer, workers, 64, 4);
        const Plan plan = std::get<Plan>(make_plan(model, request, Descending()));
        request.memory = std::max<int64_t>(1, peak_of(plan) * percent / 100);
        const auto result = make_plan(model, request, Descending());
        const auto* no = std::get_if<Infeasible>(&result);
        if (no == nullptr) continue;
        EXPECT_EQ(no->cap, *request.memory);
        EXPECT_GT(no->over, 0);
        EXPECT_LT(no->stage, workers);
        EXPECT_THAT(no->text(), HasSubstr(format("stage {}", no->stage)));
        EXPECT_THAT(no->text(), HasSubstr(format("{} bytes", no->over)));
        EXPECT_THAT(no->text(), HasSubstr(no->smallest_change));
        ++kinds[no->smallest_change.substr(0, no->smallest_change.find(' '))];
        const PlanRequest better = changed(request, no->smallest_change);
        EXPECT_TRUE(std::holds_alternative<Plan>(make_plan(model, better, Descending())))
            << model.name() << ": " << no->text();
        if (!no->smallest_change.starts_with("--memory")) continue;
        PlanRequest worse = better;  // one byte less does not do
        --*worse.memory;
        EXPECT_TRUE(std::holds_alternative<Infeasible>(make_plan(model, worse, Descending())));
      }
  EXPECT_GT(kinds["--micro-batches"], 0);
  EXPECT_GT(kinds["--memory"], 0);
}

// Of rows that take most of the memory: far more micro-batches than were asked for.
TEST(MemoryCap, WhereRowsDoNotFitManyMoreMicroBatchesDo) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kFeature, 2, 512, 2);
  const auto peak_at = [&](int micro_batches) {
    PlanRequest changed = request;
    changed.micro_batches = micro_batches;
    return peak_of(std::get<Plan>(make_plan(model, changed, Descending())));
  };
  ASSERT_LT(peak_at(64), peak_at(63));
  request.memory = peak_at(64);
  const auto result = make_plan(model, request, Descending());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(result));
  EXPECT_EQ(std::get<Infeasible>(result).smallest_change, "--micro-batches 64");
}

TEST(MemoryCap, WhereWeightsDoNotFitMoreWorkersDo) {
  const Model model = make_zoo_model("mlp", {{256, 256, 256, 10}});
  PlanRequest request = request_of(Cut::kFeature, 2, 8, 2);
  request.memory = peak_of(std::get<Plan>(make_plan(model, request, Descending()))) * 3 / 4;
  const auto result = make_plan(model, request, Descending());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(result));
  EXPECT_EQ(std::get<Infeasible>(result).smallest_change, "--workers 3");
  EXPECT_THAT(std::get<Infeasible>(result).text(), HasSubstr(", or --memory "));
}

// What workers hold between them, whatever the cut: of all plans none has less.
TEST(LeastMemory, IsNotAboveWhatAnyPlanTakes) {
  for (const Model& model : sample_models())
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid})
      for (const int workers : {1, 2, 3})
        for (const int micro_batches : {1, 4})
          for (const int states : {0, 2}) {
            PlanRequest request = request_of(cut, workers, 32, micro_batches);
            request.setting.optimizer_states = states;
            const Model rewritten = model_for(model, request);
            const Plan plan = plan_of(rewritten, request);
            int64_t all = 0;
            for (const WorkerPrediction& worker : plan.workers) all += worker.peak_bytes;
            const int64_t least = least_memory(rewritten, request);
            EXPECT_LE(least, all) << model.name() << " " << to_string(cut) << " " << workers;
            EXPECT_GT(least, 0);
            request.memory = least / workers - 1;
            EXPECT_FALSE(fits(rewritten, request, *hold_everything()));
          }
}

// Of many operators what would do is told to a part in some hundreds, and found with few plans.
TEST(MemoryCap, OfManyOperatorsWhatIsAdvisedFits) {
  const Model model = make_zoo_model("mlp", {std::vector<int64_t>(60, 16)});
  ASSERT_GT(model.nodes(), kFewNodes);
  PlanRequest request = request_of(Cut::kLayer, 3, 64, 4);
  request.memory = 1;
  const auto result = make_plan(model, request, Descending());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(result));
  const PlanRequest better = changed(request, std::get<Infeasible>(result).smallest_change);
  ASSERT_TRUE(better.memory.has_value());
  EXPECT_TRUE(std::holds_alternative<Plan>(make_plan(model, better, Descending())));
  PlanRequest worse = better;
  *worse.memory -= *worse.memory / 20;
  EXPECT_TRUE(std::holds_alternative<Infeasible>(make_plan(model, worse, Descending())));
}

// A layer cut looks for the least itself: there are too many divisions to look at each.
class LeastOfBranches : public ::testing::TestWithParam<std::string> {};

TEST_P(LeastOfBranches, IsNoMoreThanAnyCapThatIsMet) {
  const Model model = make_zoo_model(GetParam(), {.width = 0.25, .classes = 10});
  ASSERT_GT(model.nodes(), kFewNodes);
  for (const int micro_batches : {1, 8}) {
    PlanRequest request = request_of(Cut::kLayer, 4, 32, micro_batches);
    const int64_t free = peak_of(without_a_cap(model, request));
    request.memory = 1;
    const auto refused = make_plan(model, request, Descending());
    ASSERT_TRUE(std::holds_alternative<Infeasible>(refused));
    PlanRequest told = request;
    told.memory = 1 + std::get<Infeasible>(refused).over;
    EXPECT_LE(*told.memory, free) << micro_batches << " micro-batches";
    const auto least = plan_within(model, told, Descending());
    ASSERT_TRUE(least.has_value());
    EXPECT_LE(peak_of(*least), *told.memory);
    for (const int64_t part : {2, 4, 8, 16, 32}) {
      PlanRequest less = told;
      *less.memory -= *told.memory / part;
      EXPECT_FALSE(plan_within(model, less, Descending())) << "less by a part in " << part;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, LeastOfBranches,
                         ::testing::Values("resnet18", "shufflenet", "inception-v1"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

// What searches are told of a division is what a plan of it takes, each worker under its own cap.
TEST(KnownPeaks, AreThoseOfThePlan) {
  const Model model = make_zoo_model("resnet18", {.width = 0.25, .classes = 10});
  PlanRequest request = request_of(Cut::kHybrid, 4, 32, 4);
  request.stages = 2;
  const Model rewritten = model_for(model, request);
  const Plan plan = without_a_cap(rewritten, request);
  int interleaved = 0;
  int exact = 0;
  for (const WorkerPrediction& tight : plan.workers) {
    request.speed.capacities.workers.assign(4, {});
    auto& cap = request.speed.capacities.workers[static_cast<size_t>(tight.worker)].memory;
    cap = tight.peak_bytes - 1;
    const Plan made = assigned_plan(rewritten, request, Descending(), assignment_of(plan));
    std::vector<int64_t> peaks;
    for (const Stage& stage : made.stages) {
      peaks.push_back(0);
      interleaved += stage.interleaved;
      for (const int worker : made.workers_of(stage))
        peaks.back() = std::max(peaks.back(), made.workers[static_cast<size_t>(worker)].peak_bytes);
    }
    const Descending in_flight;
    KnownPeaks known(rewritten, request, in_flight);
    const std::vector<int64_t> told = known.of(assignment_of(plan), request);
    if (is_within(made, request)) {
      EXPECT_EQ(told, peaks) << "worker " << tight.worker;
      ++exact;
    } else {
      EXPECT_GT(std::ranges::max(told), *cap) << "worker " << tight.worker;
      EXPECT_LE(std::ranges::max(told), std::ranges::max(peaks));
    }
  }
  EXPECT_EQ(interleaved, 4);
  EXPECT_GT(exact, 0);
}

// The least that a division can take is known without packing, and is little less than it takes.
TEST(KnownPeaks, AboveWhatIsAskedForAreTheLeastThatAPlanCanTake) {
  int gaps = 0;
  using Case = std::pair<const char*, int>;  // model, micro-batches
  for (const auto& [name, micro_batches] :
       {Case{"resnet18", 4}, Case{"vgg16", 1}, Case{"gpt", 4}, Case{"gpt", 1},
        Case{"inception-v1", 1}, Case{"shufflenet", 1}}) {
    const Model model = make_zoo_model(name);
    const PlanRequest request = request_of(Cut::kLayer, 4, 32, micro_batches);
    const Plan plan = without_a_cap(model, request);
    const Descending in_flight;
    KnownPeaks known(model, request, in_flight);
    const std::vector<int64_t> exact = known.up_to(1e18, assignment_of(plan));
    const std::vector<int64_t> least = known.up_to(0, assignment_of(plan));
    for (size_t stage = 0; stage < exact.size(); ++stage) {
      EXPECT_EQ(exact[stage], plan.workers[stage].peak_bytes) << name;
      EXPECT_LE(least[stage], exact[stage]) << name;
      EXPECT_GE(static_cast<double>(least[stage]), 0.95 * static_cast<double>(exact[stage]))
          << name << " stage " << stage;
      gaps += least[stage] < exact[stage];
    }
  }
  EXPECT_GT(gaps, 0) << "no packing has a gap, so that the two figures are not told apart";
}

// What a plan takes is enough for it; of one micro-batch, too, whose gradients of weights are made
// and kept within the pass.
TEST(MemoryCap, ThatAPlanTakesLeavesIt) {
  for (const char* name : {"resnet18", "squeezenet", "inception-v1", "shufflenet"})
    for (const int micro_batches : {1, 4})
      for (const int workers : {2, 4}) {
        const Model model = make_zoo_model(name, {.width = 0.125, .classes = 10});
        PlanRequest request = request_of(Cut::kLayer, workers, 16, micro_batches);
        const Plan free = without_a_cap(model, request);
        request.memory = peak_of(free);
        const auto plan = plan_within(model, request, Descending());
        ASSERT_TRUE(plan.has_value()) << name << " over " << workers;
        EXPECT_EQ(plan->stages, free.stages) << name << " over " << workers;
      }
}

// Less memory makes no plan better: what a lower cap finds is found under a higher one, or better.
TEST(MemoryCap, LeavesNoBetterPlanToALowerOne) {
  using Case = std::tuple<const char*, int, int64_t>;  // model, workers, batch
  for (const auto& [name, workers, batch] :
       {Case{"vgg19", 4, 32}, Case{"vgg19", 3, 64}, Case{"squeezenet", 4, 64},
        Case{"squeezenet", 5, 32}, Case{"resnet18", 4, 64}, Case{"resnet18", 5, 32},
        Case{"shufflenet", 8, 32}, Case{"resnet50", 5, 32}}) {
    const Model model = make_zoo_model(name);
    PlanRequest request = request_of(Cut::kLayer, workers, batch, 8);
    const int64_t free = peak_of(without_a_cap(model, request));
    double least = std::numeric_limits<double>::infinity();
    int found = 0;
    for (int twentieths = 11; twentieths < 20; ++twentieths) {
      request.memory = free / 20 * twentieths;
      const auto plan = plan_within(model, request, Descending());
      if (!plan) continue;
      ++found;
      EXPECT_LE(plan->bottleneck, 1.01 * least)
          << name << " over " << workers << ", " << twentieths << " twentieths";
      least = std::min(least, plan->bottleneck);
    }
    EXPECT_GE(found, 4) << name;
  }
}

// A chain of more operators than all divisions are looked at of, and each division of it in three
// that parts its layers.
class DivisionsOfAChain {
 public:
  DivisionsOfAChain(const Model& model, const PlanRequest& request) {
    Assignment assignment;
    assignment.division.largest = request.largest_micro_batch();
    for (NodeId first = 2; first < model.nodes(); first += 2)  // a layer is two operators
      for (NodeId second = first + 2; second < model.nodes(); second += 2) {
        assignment.stages = {{{}, {0}}, {{}, {1}}, {{}, {2}}};
        assignment.division.nodes.clear();
        for (NodeId node = 0; node < model.nodes(); ++node) {
          const int stage = (node >= first) + (node >= second);
          assignment.stages[static_cast<size_t>(stage)].nodes.push_back(node);
          assignment.division.nodes.push_back(whole_division(model, node, stage));
        }
        const Plan plan = assigned_plan(model, request, Descending(), assignment);
        found_.emplace_back(peak_of(plan), plan.bottleneck);
      }
  }
  int64_t least_peak() const { return std::ranges::min(found_).first; }
  double best_within(int64_t cap) const {
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [peak, bottleneck] : found_)
      if (peak <= cap) best = std::min(best, bottleneck);
    return best;
  }

 private:
  std::vector<std::pair<int64_t, double>> found_;
};

TEST(MemoryCap, OfAChainIsMetAboutAsWellAsByTheBestOfItsDivisions) {
  for (const unsigned seed : {1U, 2U}) {
    std::mt19937 random(seed);
    std::vector<int64_t> widths;
    for (int layer = 0; layer < 36; ++layer) widths.push_back(16 << (random() % 5));
    const Model model = make_zoo_model("mlp", {widths});
    ASSERT_GT(model.nodes(), kFewNodes);
    PlanRequest request = request_of(Cut::kLayer, 3, 256, 4);
    const int64_t free = peak_of(without_a_cap(model, request));
    request.memory = 1;  // all of it interleaved
    const DivisionsOfAChain divisions(model, request);
    const auto refused = make_plan(model, request, Descending());
    ASSERT_TRUE(std::holds_alternative<Infeasible>(refused));
    const int64_t least = 1 + std::get<Infeasible>(refused).over;
    EXPECT_LE(static_cast<double>(least), 1.01 * static_cast<double>(divisions.least_peak()));
    for (const int sixteenths : {2, 6, 10, 14}) {
      request.memory = least + (free - least) * sixteenths / 16;
      const auto plan = plan_within(model, request, Descending());
      ASSERT_TRUE(plan.has_value());
      EXPECT_LE(plan->bottleneck, 1.2 * divisions.best_within(*request.memory)) << sixteenths;
    }
  }
}

}  // namespace
}  // namespace kerf::partitioner
