// The automatic cut over the zoo, narrow and of few classes, without a cap and under two, for
// training and for answers alone: never slower than a cut by itself, an even division, PipeDream's
// dynamic programming or Alpa's over stages of one worker each, under the same prices and cap.
//
// A sample of the models; KERF_ZOO_CUTS=all in the environment takes all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "partitioner/choose_plan.h"
#include "partitioner/line_splits.h"
#include "partitioner/zoo.h"
#include "schedmp/schedules.h"
#include "schedmp/verify.h"
#include "tests/schedmp/objective_of.h"

namespace kerf::schedmp {
namespace {

using partitioner::Choice;
using partitioner::Cut;
using partitioner::Infeasible;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;

bool takes_all() {
  const char* said = std::getenv("KERF_ZOO_CUTS");
  return said != nullptr && std::string(said) == "all";
}
std::vector<std::string> models() {
  if (takes_all()) return partitioner::zoo_names();
  return {"lenet5", "mlp"};
}

Model narrow(const std::string& name) {
  partitioner::ZooOptions options;
  const partitioner::ZooModel& row = partitioner::find_zoo_model(name);
  if (row.sizes.empty()) options.width = 0.25;
  if (row.images) options.classes = 10;
  return partitioner::make_zoo_model(name, options);
}

class ChoosePlanOfZoo : public testing::TestWithParam<std::string> {
 protected:
  void use(const std::string& schedule) {
    request_.schedule = schedule;
    in_flight_ = in_flight_of(schedule);
    request_.trains = in_flight_->trains();
    objective_ = objective_of(schedule);
  }
  bool is_within(const Plan& plan) const {
    return std::all_of(plan.workers.begin(), plan.workers.end(), [&](const auto& worker) {
      return !request_.memory || worker.peak_bytes <= *request_.memory;
    });
  }
  std::optional<double> seconds_of(const Model& model, const Plan& plan) const {
    return is_within(plan) ? objective_->step_seconds(model, plan, request_.speed) : std::nullopt;
  }

  // What each cut by itself takes.
  void each_cut(const std::function<void(const std::string&, double)>& visit) const {
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid})
      for (int stages = 2; stages <= (cut == Cut::kHybrid ? request_.workers : 2); ++stages) {
        PlanRequest request = request_;
        request.cut = cut;
        request.stages = stages;
        try {
          const Model model = model_for(model_, request);
          if (const auto plan = plan_within(model, request, *in_flight_))
            if (const auto seconds = seconds_of(model, *plan))
              visit(format("{} in {}", to_string(cut), stages), *seconds);
        } catch (const Error& error) {  // it cannot divide this model so
          if (error.code() == ErrorCode::kInternal) throw;
        }
      }
  }

  // And an even division, PipeDream's and Alpa's.
  void each_split(const std::function<void(const std::string&, double)>& visit) const {
    const partitioner::Chain chain = partitioner::chain_of(model_, request_);
    for (const auto& ends : partitioner::first_splits(chain, request_.workers)) {
      partitioner::Assignment assignment;
      assignment.division.largest = request_.largest_micro_batch();
      int node = 0;
      for (size_t s = 0; s < ends.size(); ++s) {
        const int part = static_cast<int>(s);
        assignment.stages.push_back({{}, {part}});
        for (; node < ends[s]; ++node) {
          assignment.stages.back().nodes.push_back(node);
          assignment.division.nodes.push_back(partitioner::whole_division(model_, node, part));
        }
      }
      if (parts_what_is_kept(assignment)) continue;
      PlanRequest request = request_;
      request.cut = Cut::kLayer;
      const Plan plan = assigned_plan(model_, request, *in_flight_, assignment);
      if (const auto seconds = seconds_of(model_, plan))
        visit("stages that end at " + testing::PrintToString(ends), *seconds);
    }
  }

  // Operators that share a parameter are on one worker in every layer cut.
  bool parts_what_is_kept(const partitioner::Assignment& assignment) const {
    const auto part_of = [&](const partitioner::Use& use) {
      return assignment.division.nodes[static_cast<size_t>(use.node)].shares[0].part;
    };
    for (const partitioner::ValueId id : model_.kept_values())
      for (const partitioner::Use& use : model_.uses(id))
        if (part_of(use) != part_of(model_.uses(id).front())) return true;
    return false;
  }

  const Model model_ = narrow(GetParam());
  PlanRequest request_;
  std::unique_ptr<partitioner::InFlight> in_flight_;
  std::unique_ptr<partitioner::Objective> objective_;
};

TEST_P(ChoosePlanOfZoo, IsNoSlowerThanWhatOthersChoose) {
  request_.batch = 16;
  request_.micro_batches = 4;
  int compared = 0;
  for (const int workers : {2, 4})
    for (const char* schedule : {"1f1b", "forward-only"}) {
      request_.workers = workers;
      use(schedule);
      int64_t free = 0;
      for (const double share : {1.0, 0.85, 0.6}) {
        request_.memory.reset();
        if (free > 0) request_.memory = static_cast<int64_t>(share * static_cast<double>(free));
        const auto answer = choose_plan(model_, request_, *in_flight_, *objective_);
        const auto* choice = std::get_if<Choice>(&answer);
        const double best = choice != nullptr ? seconds_of(choice->model, choice->plan).value_or(-1)
                                              : std::numeric_limits<double>::infinity();
        ASSERT_GT(best, 0) << "a plan above its cap, or one that the schedule cannot run";
        const auto compare = [&](const std::string& other, double seconds) {
          ++compared;
          EXPECT_LE(best, seconds * (1 + 1e-12))
              << other << " over " << workers << ", " << schedule << ", " << share;
          EXPECT_NE(choice, nullptr) << other << " fits";
        };
        each_cut(compare);
        each_split(compare);
        if (free == 0)
          for (const auto& worker : choice->plan.workers) free = std::max(free, worker.peak_bytes);
      }
    }
  EXPECT_GT(compared, 20);
}

std::string as_test_name(const testing::TestParamInfo<std::string>& each) {
  std::string name = each.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, ChoosePlanOfZoo, testing::ValuesIn(models()), as_test_name);

// Models that a cut by feature divides evenly over eight workers, sending every activation to
// everybody, which has to be packed and unpacked.
std::vector<std::string> models_with_a_heavy_operator() {
  std::vector<std::string> names{"alexnet", "bvlc-alexnet", "squeezenet"};
  if (takes_all()) names.insert(names.end(), {"inception-v1", "inception-v3"});
  return names;
}

int64_t bytes_of(const Plan& plan) {
  int64_t bytes = 0;
  for (const auto& worker : plan.workers) bytes += worker.bytes_out;
  return bytes;
}

double busiest(const Plan& plan) {
  double most = 0;
  for (const auto& worker : plan.workers) most = std::max(most, worker.seconds);
  return most;
}

class HeavyOperator : public testing::TestWithParam<std::string> {};

TEST_P(HeavyOperator, IsDividedEvenlyAndMovesLittle) {
  const Model whole = partitioner::make_zoo_model(GetParam());
  const auto in_flight = in_flight_of(std::string("1f1b"));
  const auto objective = objective_of("1f1b");
  const auto plan_by = [&](Cut cut, int workers) {
    PlanRequest request;
    request.cut = cut;
    request.workers = workers;
    return std::get<Plan>(make_plan(model_for(whole, request), request, *in_flight));
  };
  PlanRequest request;
  request.workers = 8;
  const auto choice = std::get<Choice>(choose_plan(whole, request, *in_flight, *objective));
  const Plan feature = plan_by(Cut::kFeature, 8);
  const double share = busiest(plan_by(Cut::kLayer, 1)) / 8;
  RecordProperty("ratio", format("{:.3f}", busiest(choice.plan) / share));
  RecordProperty("bytes", format("{} of {}", bytes_of(choice.plan), bytes_of(feature)));
  EXPECT_LE(busiest(choice.plan), 1.25 * share);
  EXPECT_LE(bytes_of(choice.plan), 0.6 * static_cast<double>(bytes_of(feature)));
}

INSTANTIATE_TEST_SUITE_P(Models, HeavyOperator, testing::ValuesIn(models_with_a_heavy_operator()),
                         as_test_name);

}  // namespace
}  // namespace kerf::schedmp
