// What a plan is predicted to take is what its schedule is proved to, to the byte.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/replicas.h"
#include "partitioner/zoo.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;

struct PeakModel {
  const char* model;
  partitioner::ZooOptions options;
};

// Of each worker: predicted, proved.
struct Peaks {
  int64_t predicted = 0;
  int64_t proved = 0;
};

// Under these rows, or else the request's schedule.
std::vector<Peaks> peaks_of(const Model& whole, PlanRequest request,
                            const std::optional<Schedule>& rows = std::nullopt) {
  const auto in_flight = rows ? in_flight_of(*rows) : in_flight_of(request.schedule);
  request.trains = in_flight->trains();
  request.updates_within = in_flight->updates_within();
  const Model model = model_for(whole, request);
  const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight));
  const Schedule schedule = rows.value_or(as_it_runs(make_schedule(request.schedule, model, plan)));
  const auto parts = lower(model, plan, lowering_for(schedule, request.setting));
  const Verdict verdict = verify(model, plan, parts, schedule, request.setting);
  EXPECT_TRUE(verdict.ok()) << fmt::format("{}", fmt::join(verdict.problems, "; "));
  EXPECT_EQ(verdict.peak_bytes.size(), plan.workers.size());
  std::vector<Peaks> peaks;
  for (size_t worker = 0; worker < verdict.peak_bytes.size(); ++worker)
    peaks.push_back({plan.workers.at(worker).peak_bytes, verdict.peak_bytes[worker]});
  return peaks;
}

class PredictedPeaks : public testing::TestWithParam<PeakModel> {
 protected:
  // Tells `each` of every worker of each cut over 2, 3 and 5.
  template <class Each>
  void of_every_cut(const std::vector<Cut>& cuts, const std::string& schedule, int micro_batches,
                    const Each& each) const {
    const Model whole = partitioner::make_zoo_model(GetParam().model, GetParam().options);
    for (const Cut cut : cuts)
      for (const int workers : {2, 3, 5}) {
        PlanRequest request;
        request.cut = cut;
        if (cut == Cut::kFree) request.steering.pattern = "even";
        request.workers = workers;
        request.batch = 32;
        request.micro_batches = micro_batches;
        request.schedule = schedule;
        SCOPED_TRACE(format("{} over {}, {}", to_string(cut), workers, schedule));
        for (const Peaks& worker : peaks_of(whole, request)) each(worker);
      }
  }
  const std::vector<Cut> all_ = {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid, Cut::kFree};
};

TEST_P(PredictedPeaks, AreThoseProved) {
  for (const std::string schedule : {"1f1b", "gpipe", "forward-only", "zb-h1", "zb-h2"})
    of_every_cut(all_, schedule, 4,
                 [](const Peaks& worker) { EXPECT_EQ(worker.predicted, worker.proved); });
}

// The next step is begun in this one.
TEST_P(PredictedPeaks, AreThoseProvedWhereStepsGoOn) {
  for (const std::string schedule : {"pipedream", "ampnet"})
    for (const int micro_batches : {1, 2, 4})
      of_every_cut({Cut::kLayer, Cut::kHybrid}, schedule, micro_batches,
                   [](const Peaks& worker) { EXPECT_EQ(worker.predicted, worker.proved); });
}

// The schedule places two stages on each worker.
TEST_P(PredictedPeaks, AreThoseProvedWhereStagesGoThereAndBack) {
  const Model whole = partitioner::make_zoo_model(GetParam().model, GetParam().options);
  for (const std::string schedule : {"zbv", "v-half", "v-min", "dualpipe-v"})
    for (const int micro_batches : {4, 6}) {
      PlanRequest request;
      request.workers = 4;
      request.placement = {0, 1, 1, 0};
      request.batch = 24;
      request.micro_batches = micro_batches;
      request.schedule = schedule;
      SCOPED_TRACE(format("{} of {}", schedule, micro_batches));
      for (const Peaks& worker : peaks_of(whole, request))
        EXPECT_EQ(worker.predicted, worker.proved);
    }
}

TEST_P(PredictedPeaks, AreThoseProvedWhereStagesRecompute) {
  const Model whole = partitioner::make_zoo_model(GetParam().model, GetParam().options);
  for (const std::string schedule : {"1f1b", "gpipe", "zb-h1"}) {
    PlanRequest request;
    request.workers = 3;
    request.batch = 24;
    request.micro_batches = 4;
    const Schedule rows = recomputed(make_schedule(schedule, chain_of_shape(schedule, 3), 4));
    for (const Peaks& worker : peaks_of(whole, request, rows))
      EXPECT_EQ(worker.predicted, worker.proved) << schedule;
  }
}

// Replicas that go both ways; of three micro-batches one has two and the other one.
TEST(PredictedPeaksOfReplicas, AreThoseProved) {
  const Model model = partitioner::make_zoo_model("convnet");
  for (const std::string schedule : {"chimera", "dualpipe"})
    for (const int workers : {2, 4})
      for (const int micro_batches : {3, 4, 7}) {
        SCOPED_TRACE(format("{} over {} of {}", schedule, workers, micro_batches));
        PlanRequest request;
        request.workers = workers;
        request.batch = 28;
        request.micro_batches = micro_batches;
        request.schedule = schedule;
        const auto in_flight = in_flight_of(schedule);
        const Plan one = std::get<Plan>(make_plan(model, request, *in_flight));
        const Schedule rows = make_schedule(schedule, model, one);
        const Plan plan =
            replicated_plan(model, request, *in_flight, one, rows.groups, rows.replica_of);
        const auto parts = lower(model, plan, lowering_for(rows, request.setting));
        const Verdict verdict = verify(model, plan, parts, rows, request.setting);
        ASSERT_TRUE(verdict.ok()) << fmt::format("{}", fmt::join(verdict.problems, "; "));
        for (size_t worker = 0; worker < verdict.peak_bytes.size(); ++worker)
          EXPECT_EQ(plan.workers.at(worker).peak_bytes, verdict.peak_bytes[worker]) << worker;
      }
}

// As a plan's file may name them.
TEST(PredictedPeaksOfReplicas, CountWhatAnyHasWhereTheScheduleHasOthers) {
  const auto pipeline = chain_of({{0}, {1}, {1}, {0}}, 2);
  const Schedule longer = make_schedule("chimera", chain_of_shape("chimera", 4), 4);
  const Schedule single = make_schedule("1f1b", chain_of_shape("1f1b", 2), 4);
  for (const Schedule& schedule : {longer, single}) {
    const auto flights = in_flight_of(schedule)->of(pipeline, 4);
    ASSERT_EQ(flights.size(), 4U) << schedule.name;
    for (const partitioner::Flight& flight : flights) EXPECT_GT(flight.kept, 0) << schedule.name;
  }
  const auto of_single = in_flight_of(single)->of(pipeline, 4);
  for (const size_t stage : {0U, 1U}) EXPECT_EQ(of_single[stage], of_single[stage + 2]);
}

// A value without a gradient is read in two branches: none waits for the other's backward pass.
TEST(PredictedPeaksOfBranches, AreThoseProved) {
  partitioner::Builder b("branches");
  const auto x = b.relu(b.input("x", {ops::kBatch, 512}), "first x");
  const auto sum = b.add(b.gemm(x, 64, "first"), b.gemm(x, 64, "second"), "last sum");
  b.loss(b.gemm(b.relu(sum, "last relu"), 10, "last"));
  const Model model = b.build();
  for (const std::string schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2"}) {
    PlanRequest request;
    request.workers = 3;
    request.batch = 64;
    request.micro_batches = 8;
    request.schedule = schedule;
    request.steering.places = {{"first*", 0}, {"second*", 1}, {"last*", 2}};
    for (const Peaks& worker : peaks_of(model, request))
      EXPECT_EQ(worker.predicted, worker.proved) << schedule;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, PredictedPeaks,
                         testing::Values(PeakModel{"alexnet", {}},
                                         PeakModel{"resnet18", {.width = 0.25, .classes = 10}},
                                         PeakModel{"shufflenet", {.width = 0.25, .classes = 10}},
                                         PeakModel{"seq2seq", {}}),
                         [](const auto& each) { return std::string(each.param.model); });

}  // namespace
}  // namespace kerf::schedmp
