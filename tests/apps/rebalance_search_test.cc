// kerf train --rebalance beside its loop: a plan is searched, proved and weighed in a thread of its
// own, while the training of which it reads the model and the plan goes on. What workers take is
// said, so that one is slow; all else is a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned.h"
#include "apps/kerf/rebalance.h"
#include "apps/programs.h"
#include "runtime/error.h"
#include "runtime/time.h"
#include "schedmp/scheduler.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

PlanFlags flags_of_run() {
  PlanFlags flags;
  flags.model = "mlp";
  flags.sizes = "32-64-64-64-64-64-64-8";
  flags.cut = "layer";
  flags.workers = 2;
  flags.batch = 16;
  flags.micro_batches = 4;
  flags.run_on({});
  return flags;
}

schedmp::TrainingOptions options_of_run(const Planned& planned) {
  schedmp::TrainingOptions options;
  options.model_source = planned.source;
  options.dataset = "synthetic:1600x32x8";
  options.batch = planned.plan.batch;
  options.setting = planned.setting;
  options.memory = planned.memory;
  options.epochs = 10'000;
  options.evaluate = false;
  options.trace_steps = 4;
  return options;
}

// What each worker takes of a step: as long as the other, but for the second behind the first
// window of what is measured.
class Said {
 public:
  std::array<int64_t, 2> next(int traced) {
    if (++steps_ == traced + 1) began_ = runtime::Clock::now();
    const bool is_slow = steps_ > traced && runtime::Clock::now() > began_ + 2300ms;
    return {kUsual, is_slow ? 4 * kUsual : kUsual};
  }

 private:
  static constexpr int64_t kUsual = 10'000'000;
  int steps_ = 0;
  runtime::Clock::time_point began_;
};

TEST(RebalanceSearch, IsBesideTheLoopThatItIsFor) {
  const tests::TemporaryFolder folder;
  const PlanFlags flags = flags_of_run();
  const CrewFlags crew_flags;
  const Planned planned = make_plan_of(flags, /*quietly=*/true);
  const schedmp::Schedule schedule = fitting_schedule_of(flags, planned).schedule;
  const schedmp::TrainingOptions options = options_of_run(planned);
  Rebalanced before;
  Rebalance rebalance({flags, crew_flags, planned, schedule, options, before, folder / "rebalance",
                       runtime::now_ns()});
  std::optional<schedmp::Training> training;
  Said said;
  const runtime::Deadline deadline = runtime::after(100s);
  schedmp::TrainingObserver observer;
  observer.computed = [&](const schedmp::StepRecord& step, std::span<const int64_t> /*measured*/) {
    rebalance.computed(*training, step, said.next(4));
    if (rebalance.agreed() || runtime::Clock::now() > deadline)
      throw Error(ErrorCode::kInterrupted, "enough");  // the run has no end of its own by then
    std::this_thread::sleep_for(40ms);                 // there is no hurry
  };
  training.emplace(training_factories(), planned.model, planned.plan, schedule, options, observer);
  const auto crew = kerf::tests::inproc_crew(
      2, {{"training", [] { return schedmp::training_worker(training_factories()); }}});
  const auto end = kerf::tests::error_of([&] { schedmp::run(*training, *crew); });
  ASSERT_TRUE(end);
  EXPECT_THAT(end->what(), HasSubstr("enough"));
  ASSERT_TRUE(rebalance.agreed()) << "within 100 s";
  EXPECT_THAT(rebalance.agreed()->told, HasSubstr("worker 1 takes"));
  EXPECT_THAT(rebalance.agreed()->told, HasSubstr("of weights move"));
  EXPECT_FALSE(std::filesystem::is_empty(folder / "rebalance"));
}

}  // namespace
}  // namespace kerf::apps
