// Caps on memory: kept, and where nothing fits the smallest change that does is named.
#include <gmock/gmock.h>

#include <map>
#include <regex>

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
    for (const int hops : hops_to_the_end(pipeline))
      flights.push_back({std::min(hops + 1, micro_batches), 0});
    return flights;
  }
};

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

}  // namespace
}  // namespace kerf::partitioner
