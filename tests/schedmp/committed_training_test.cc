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

// A program, with a round of requests of its own before one of the program's: the first from
// `least` on before which it rests.
class Interposed final : public EncodedProgram {
 public:
  Interposed(EncodedProgram& program, int64_t least, std::vector<std::string> requests)
      : program_(program), before_(least), requests_(std::move(requests)) {}
  std::string name() const override { return program_.name(); }
  std::string job(int worker) override { return program_.job(worker); }
  LaneTable lanes(int workers) const override { return program_.lanes(workers); }
  std::vector<TableSpec> tables(int workers) override { return program_.tables(workers); }
  void channels_go_over(const TransportTable& table) override { program_.channels_go_over(table); }
  Decision schedule(int64_t round) override {
    if (round == before_ && !program_.rests_before(round)) ++before_;
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
  int64_t before_;
  const std::vector<std::string> requests_;
};

struct Committed {
  Cut cut = Cut::kLayer;
  int workers = 1;
  int replicas = 1;
  const char* consistency = "sync";
  const char* source = "filtering";
  bool lbfgs = false;
  std::vector<int64_t> rounds = {1, 4, 5, 7};
};

class CommittedTraining : public testing::TestWithParam<Committed> {
 protected:
  // Runs it to its end with these requests before that round; the losses of all steps.
  struct Run {
    std::vector<double> losses;
    std::vector<double> evaluations;
    std::vector<EncodedProgram::Result> answers;
    std::string state;
    std::vector<int64_t> kept_bytes;  // as told beforehand, by worker
  };
  Run run(int64_t before, std::vector<std::string> requests, const std::string& state = {}) {
    const Case c{.source = GetParam().source, .cut = GetParam().cut, .workers = GetParam().workers};
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
    options.replicas = {.count = GetParam().replicas,
                        .consistency = parse_consistency(GetParam().consistency)};
    if (GetParam().lbfgs) options.lbfgs = LbfgsOptions{.history = 3, .most_iterations = 7};
    const auto made =
        make_training(factories(), model, plan, make_schedule(c.schedule, model, plan), options);
    Training& training = *made;
    Encoded<TrainingMessages> encoded(training);
    if (!state.empty()) encoded.restore(state);
    Interposed program(encoded, before, std::move(requests));
    const auto crew = kerf::tests::inproc_crew(
        workers(), {{"training", [] { return training_worker(factories()); }}});
    schedmp::run(program, *crew);
    crew->stop();
    Run done{{}, {}, program.answers, program.state, {}};
    for (const WorkerFigures& each : training.workers()) done.kept_bytes.push_back(each.kept_bytes);
    for (const StepRecord& step : training.steps()) done.losses.push_back(step.loss);
    for (const EvaluationRecord& each : training.evaluations())
      done.evaluations.push_back(each.loss);
    return done;
  }
  static int workers() { return GetParam().workers * GetParam().replicas; }
  std::vector<std::string> requests(const std::function<std::string(int worker)>& of_worker) {
    std::vector<std::string> all;
    for (int worker = 0; worker < workers(); ++worker) all.push_back(of_worker(worker));
    return all;
  }

  kerf::tests::TemporaryFolder folder_;
};

TEST_P(CommittedTraining, GoesOnFromWhatEachWorkerAloneWrote) {
  const auto file = [&](int worker) { return (folder_ / std::to_string(worker)).string(); };
  for (const int64_t round : GetParam().rounds) {
    const Run whole =
        run(round,
            requests([&](int worker) { return request_of(WorkerRequest::kCommit, file(worker)); }));
    ASSERT_EQ(std::ssize(whole.answers), workers());
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

// Of L-BFGS, once it has all pairs.
TEST_P(CommittedTraining, KeepsAsMuchAsWasTold) {
  const auto file = [&](int worker) { return (folder_ / std::to_string(worker)).string(); };
  const Run whole =
      run(GetParam().rounds.back(),
          requests([&](int worker) { return request_of(WorkerRequest::kCommit, file(worker)); }));
  for (int worker = 0; worker < workers(); ++worker) {
    int64_t bytes = 0;
    for (const NamedTensor& each : read_safetensors(file(worker)))
      bytes += static_cast<int64_t>(each.bytes.size());
    if (GetParam().lbfgs && GetParam().rounds.back() < 30)
      EXPECT_LE(bytes, whole.kept_bytes[static_cast<size_t>(worker)]);
    else
      EXPECT_EQ(bytes, whole.kept_bytes[static_cast<size_t>(worker)]) << worker;
  }
}

// A batch cut divides no normalisation of the filtering model.
INSTANTIATE_TEST_SUITE_P(Cuts, CommittedTraining,
                         testing::Values(Committed{.workers = 1}, Committed{.workers = 3},
                                         Committed{.cut = Cut::kFeature, .workers = 2},
                                         Committed{
                                             .cut = Cut::kBatch, .workers = 3, .source = "braided"},
                                         Committed{.cut = Cut::kHybrid, .workers = 3}));

// Those that repeat their bits.
INSTANTIATE_TEST_SUITE_P(
    Replicas, CommittedTraining,
    testing::Values(Committed{.replicas = 2, .consistency = "ssp:0"},
                    Committed{.workers = 2, .replicas = 3, .consistency = "ssp:0"},
                    Committed{.workers = 2, .replicas = 2, .consistency = "average:1"},
                    Committed{.workers = 2, .replicas = 2, .consistency = "average:3"},
                    Committed{.cut = Cut::kBatch,
                              .workers = 2,
                              .replicas = 2,
                              .consistency = "average:3",
                              .source = "dropping"}));

// Before the first direction, and after one iteration and several.
INSTANTIATE_TEST_SUITE_P(
    Lbfgs, CommittedTraining,
    testing::Values(
        Committed{.source = "12-10-5", .lbfgs = true, .rounds = {1, 8, 20, 40}},
        Committed{
            .workers = 2, .replicas = 2, .source = "dropping", .lbfgs = true, .rounds = {1, 20}}));

}  // namespace
}  // namespace kerf::schedmp::tests
