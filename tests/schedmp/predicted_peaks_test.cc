// What a plan is predicted to take is what its schedule is proved to: to the byte, but for messages
// that are kept for gradients of weights, of which at most as many are predicted as may be.
#include <gtest/gtest.h>

#include <string>

#include "partitioner/cut.h"
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

class PredictedPeaks : public testing::TestWithParam<PeakModel> {
 protected:
  // Tells `each` of the bytes of every worker of every cut over 2, 3 and 5: predicted, proved.
  template <class Each>
  void of_every_cut(const std::string& schedule, const Each& each) const {
    const Model whole = partitioner::make_zoo_model(GetParam().model, GetParam().options);
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid, Cut::kFree})
      for (const int workers : {2, 3, 5}) {
        PlanRequest request = request_of(cut, workers, schedule);
        const auto in_flight = in_flight_of(schedule);
        request.trains = in_flight->trains();
        const Model model = model_for(whole, request);
        const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight));
        const std::vector<int64_t> proved = peaks_of(model, plan, request);
        for (size_t worker = 0; worker < proved.size(); ++worker)
          each(plan.workers[worker].peak_bytes, proved[worker],
               format("{} over {}, worker {}, {}", to_string(cut), workers, worker, schedule));
      }
  }

 private:
  static PlanRequest request_of(Cut cut, int workers, const std::string& schedule) {
    PlanRequest request;
    request.cut = cut;
    if (cut == Cut::kFree) request.steering.pattern = "even";
    request.workers = workers;
    request.batch = 32;
    request.micro_batches = 4;
    request.schedule = schedule;
    return request;
  }
  static std::vector<int64_t> peaks_of(const Model& model, const Plan& plan,
                                       const PlanRequest& request) {
    const Schedule schedule = as_it_runs(make_schedule(request.schedule, model, plan));
    const auto parts = lower(model, plan, lowering_for(schedule, request.setting));
    const Verdict verdict = verify(model, plan, parts, schedule, request.setting);
    EXPECT_TRUE(verdict.ok()) << fmt::format("{}", fmt::join(verdict.problems, "; "));
    return verdict.peak_bytes;
  }
};

TEST_P(PredictedPeaks, AreThoseProvedWhereBRunsBothGradients) {
  for (const std::string schedule : {"1f1b", "gpipe", "forward-only"})
    of_every_cut(schedule, [](int64_t predicted, int64_t proved, const std::string& where) {
      EXPECT_EQ(predicted, proved) << where;
    });
}

TEST_P(PredictedPeaks, AreNoLessAndHardlyMoreWhereTheyAreApart) {
  for (const std::string schedule : {"zb-h1", "zb-h2"})
    of_every_cut(schedule, [](int64_t predicted, int64_t proved, const std::string& where) {
      EXPECT_GE(predicted, proved) << where;
      EXPECT_LE(predicted, proved + proved / 20) << where;
    });
}

INSTANTIATE_TEST_SUITE_P(Zoo, PredictedPeaks,
                         testing::Values(PeakModel{"alexnet", {}},
                                         PeakModel{"resnet18", {.width = 0.25, .classes = 10}},
                                         PeakModel{"shufflenet", {.width = 0.25, .classes = 10}},
                                         PeakModel{"seq2seq", {}}),
                         [](const auto& each) { return std::string(each.param.model); });

}  // namespace
}  // namespace kerf::schedmp
