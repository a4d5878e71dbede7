// A worker of a training goes on from what it alone wrote: homes, copies that its calls read, and
// optimizer states.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/wire.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "tests/schedmp/trained.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp::tests {
namespace {

// A program, with a round of requests of its own before one of the program's.
class Interposed final : public EncodedProgram {
 public:
  Interposed(EncodedProgram& program, int64_t before, std::vector<std::string> requests)
      : program_(program), before_(before), requests_(std::move(requests)) {}
  std::string name() const override { return program_.name(); }
  std::string job(int worker) override { return program_.job(worker); }
  LaneTable lanes(int workers) const override { return program_.lanes(workers); }
  std::vector<TableSpec> tables(int workers) override { return program_.tables(workers); }
  void channels_go_over(const TransportTable& table) override { program_.channels_go_over(table); }
  Decision schedule(int64_t round) override {
    if (round != before_) return program_.schedule(round - (round > before_ ? 1 : 0));
    std::vector<Task> tasks;
    for (size_t worker = 0; worker < requests_.size(); ++worker)
      tasks.push_back({static_cast<int>(worker), requests_[worker]});
    return tasks;
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    if (round != before_)
      return program_.aggregate(round - (round > before_ ? 1 : 0), std::move(results));
    answers = std::move(results);
    state = program_.snapshot();
  }

  std::vector<Result> answers;  // to the requests
  std::string state;            // of the scheduler's half then

 private:
  EncodedProgram& program_;
  const int64_t before_;
  const std::vector<std::string> requests_;
};

class CommittedTraining : public testing::TestWithParam<std::pair<Cut, int>> {
 protected:
  // Runs it to its end with these requests before that round; the losses of all steps.
  struct Run {
    std::vector<double> losses;
    std::vector<double> evaluations;
    std::vector<EncodedProgram::Result> answers;
    std::string state;
  };
  Run run(int64_t before, std::vector<std::string> requests, const std::string& state = {}) {
    // A batch cut divides no normalisation of this model.
    const Case c{.source = GetParam().first == Cut::kBatch ? "braided" : "filtering",
                 .cut = GetParam().first,
                 .workers = GetParam().second};
    const Model model = make_model(c.source);
    const Plan plan = plan_of(model, c);
    TrainingOptions options;
    options.model_source = c.source;
    options.dataset = c.dataset;
    options.batch = c.batch;
    options.steps = 8;
    options.epochs = 1000;
    options.optimizer = {.name = "adam", .learning_rate = 0.01};
    options.setting.devices = {runtime::DeviceKind::kCpu};
    Training training(factories(), model, plan, make_schedule(c.schedule, model, plan), options);
    Encoded<TrainingMessages> encoded(training);
    if (!state.empty()) encoded.restore(state);
    Interposed program(encoded, before, std::move(requests));
    const auto crew = kerf::tests::inproc_crew(
        c.workers, {{"training", [] { return training_worker(factories()); }}});
    schedmp::run(program, *crew);
    crew->stop();
    Run done{{}, {}, program.answers, program.state};
    for (const StepRecord& step : training.steps()) done.losses.push_back(step.loss);
    for (const EvaluationRecord& each : training.evaluations())
      done.evaluations.push_back(each.loss);
    return done;
  }
  std::vector<std::string> requests(const std::function<std::string(int worker)>& of_worker) {
    std::vector<std::string> all;
    for (int worker = 0; worker < GetParam().second; ++worker) all.push_back(of_worker(worker));
    return all;
  }

  kerf::tests::TemporaryFolder folder_;
};

TEST_P(CommittedTraining, GoesOnFromWhatEachWorkerAloneWrote) {
  const auto file = [&](int worker) { return (folder_ / std::to_string(worker)).string(); };
  for (const int64_t round : {1, 4, 5, 7}) {
    const Run whole =
        run(round,
            requests([&](int worker) { return request_of(WorkerRequest::kCommit, file(worker)); }));
    ASSERT_EQ(std::ssize(whole.answers), GetParam().second);
    const Run again =
        run(0, requests([&](int worker) {
              const auto& answer = whole.answers[static_cast<size_t>(worker)];
              return request_of(WorkerRequest::kRestore,
                                runtime::encode(PlacedPart{
                                    file(worker), runtime::decode<SnapshotPart>(answer.payload)}));
            }),
            whole.state);
    EXPECT_EQ(again.losses, whole.losses);
    EXPECT_EQ(again.evaluations, whole.evaluations);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuts, CommittedTraining,
                         testing::Values(std::pair(Cut::kLayer, 1), std::pair(Cut::kLayer, 3),
                                         std::pair(Cut::kFeature, 2), std::pair(Cut::kBatch, 3),
                                         std::pair(Cut::kHybrid, 3)));

}  // namespace
}  // namespace kerf::schedmp::tests
