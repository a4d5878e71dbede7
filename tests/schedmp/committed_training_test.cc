// A worker of a training goes on from what it alone wrote: homes, copies that its calls read, and
// optimizer states; to the same bits where a run repeats its own, and elsewhere with every gradient
// once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "runtime/wire.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "tests/schedmp/trained.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp::tests {
namespace {

// A program, with a round of requests of its own before one of the program's: the first from
// `least` on before which it rests. Others come behind its last round.
class Interposed final : public EncodedProgram {
 public:
  Interposed(EncodedProgram& program, int64_t least, std::vector<std::string> requests,
             std::vector<std::string> at_end)
      : program_(program),
        before_(least),
        requests_(std::move(requests)),
        at_end_(std::move(at_end)) {}
  std::string name() const override { return program_.name(); }
  std::string job(int worker) override { return program_.job(worker); }
  LaneTable lanes(int workers) const override { return program_.lanes(workers); }
  std::vector<TableSpec> tables(int workers) override { return program_.tables(workers); }
  void channels_go_over(const TransportTable& table) override { program_.channels_go_over(table); }
  Decision schedule(int64_t round) override {
    if (round == before_ && !program_.rests_before(round)) ++before_;
    if (round == before_) return tasks_of(requests_);
    if (end_ >= 0) return Done{};
    Decision decision = program_.schedule(round - (round > before_ ? 1 : 0));
    if (!std::holds_alternative<Done>(decision) || at_end_.empty()) return decision;
    end_ = round;
    return tasks_of(at_end_);
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    if (round == end_) return;
    if (round != before_)
      return program_.aggregate(round - (round > before_ ? 1 : 0), std::move(results));
    answers = std::move(results);
    state = program_.snapshot();
  }

  std::vector<Result> answers;  // to the requests
  std::string state;            // of the scheduler's half then

 private:
  static std::vector<Task> tasks_of(const std::vector<std::string>& requests) {
    std::vector<Task> tasks;
    for (size_t worker = 0; worker < requests.size(); ++worker)
      tasks.push_back({static_cast<int>(worker), requests[worker]});
    return tasks;
  }

  EncodedProgram& program_;
  int64_t before_;
  int64_t end_ = -1;
  const std::vector<std::string> requests_;
  const std::vector<std::string> at_end_;
};

struct Committed {
  Cut cut = Cut::kLayer;
  int workers = 1;
  int replicas = 1;
  const char* consistency = "sync";
  const char* source = "filtering";
  bool lbfgs = false;
  std::vector<int64_t> rounds = {1, 4, 5, 7};
  int groups = 1;
  int64_t push = 1, fetch = 1;
  bool repeats_bits = true;
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
  Run run(int64_t before, std::vector<std::string> requests, const std::string& state = {},
          std::vector<std::string> at_end = {}) {
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
                        .consistency = parse_consistency(GetParam().consistency),
                        .server_groups = GetParam().groups,
                        .push_every = GetParam().push,
                        .fetch_every = GetParam().fetch};
    // By steps so small that no gradient depends on how far others came.
    if (!GetParam().repeats_bits) options.optimizer = {.learning_rate = 1e-4};
    if (GetParam().lbfgs) options.lbfgs = LbfgsOptions{.history = 3, .most_iterations = 7};
    const auto made =
        make_training(factories(), model, plan, make_schedule(c.schedule, model, plan), options);
    Training& training = *made;
    Encoded<TrainingMessages> encoded(training);
    if (!state.empty()) encoded.restore(state);
    Interposed program(encoded, before, std::move(requests), std::move(at_end));
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
  std::string file(const std::string& what, int worker) const {
    return (folder_ / kerf::format("{} {}", what, worker)).string();
  }
  std::vector<std::string> commits(const std::string& what) {
    return requests(
        [&](int worker) { return request_of(WorkerRequest::kCommit, file(what, worker)); });
  }
  std::vector<std::string> restores(const std::string& what, const Run& of) {
    return requests([&](int worker) {
      const auto& answer = of.answers[static_cast<size_t>(worker)];
      const PlacedPart placed{file(what, worker),
                              runtime::decode<SavedPieces>(answer.payload).pieces.at(0)};
      return request_of(WorkerRequest::kRestore, runtime::encode(std::vector{placed}));
    });
  }
  // Of what all workers wrote.
  std::set<int64_t> counts(const std::string& what) const {
    std::set<int64_t> counts;
    for (int worker = 0; worker < workers(); ++worker)
      for (const NamedTensor& each : read_safetensors(file(what, worker))) {
        if (each.name.find("updates/") == std::string::npos) continue;
        int64_t count = 0;
        EXPECT_EQ(each.bytes.size(), sizeof(count));
        std::memcpy(&count, each.bytes.data(), sizeof(count));
        counts.insert(count);
      }
    return counts;
  }
  // By worker and tensor.
  std::map<std::string, std::vector<float>> weights(const std::string& what) const {
    std::map<std::string, std::vector<float>> weights;
    for (int worker = 0; worker < workers(); ++worker)
      for (const NamedTensor& each : read_safetensors(file(what, worker))) {
        if (each.name.find("weights/") == std::string::npos) continue;
        auto& numbers = weights[kerf::format("{} {}", worker, each.name)];
        numbers.resize(each.bytes.size() / sizeof(float));
        std::memcpy(numbers.data(), each.bytes.data(), each.bytes.size());
      }
    return weights;
  }
  double largest_difference(const std::string& a, const std::string& b) const {
    const auto others = weights(b);
    double largest = 0;
    for (const auto& [name, numbers] : weights(a)) {
      const std::vector<float>& other = others.at(name);
      EXPECT_EQ(other.size(), numbers.size());
      for (size_t i = 0; i < numbers.size(); ++i)
        largest = std::max(largest, std::abs(double{numbers[i]} - double{other[i]}));
    }
    return largest;
  }
  // Of each tensor's pushes in all. Epochs are of two steps, and at their ends all is pushed.
  static int64_t pushes() {
    int64_t count = 0;
    for (int64_t step = 1; step <= 8; ++step)
      if (step % GetParam().push == 0 || step % 2 == 0) ++count;
    return count * GetParam().replicas / GetParam().groups;
  }
  void expect_every_gradient_once(int64_t round) const {
    EXPECT_THAT(counts("whole"), testing::ElementsAre(pushes()));
    EXPECT_THAT(counts("again"), testing::ElementsAre(pushes()));
    const double change = largest_difference("begun", "whole");
    EXPECT_GT(change, 0);
    EXPECT_LT(largest_difference("whole", "again"), 0.02 * change) << round;
  }

  kerf::tests::TemporaryFolder folder_;
};

TEST_P(CommittedTraining, GoesOnFromWhatEachWorkerAloneWrote) {
  if (!GetParam().repeats_bits) run(0, commits("begun"));
  for (const int64_t round : GetParam().rounds) {
    const Run whole = run(round, commits("kept"), {}, commits("whole"));
    ASSERT_EQ(std::ssize(whole.answers), workers());
    const Run again = run(0, restores("kept", whole), whole.state, commits("again"));
    if (!GetParam().repeats_bits) {
      expect_every_gradient_once(round);
      continue;
    }
    EXPECT_EQ(again.losses, whole.losses);
    EXPECT_EQ(again.evaluations, whole.evaluations);
  }
}

// Of L-BFGS, once it has all pairs.
TEST_P(CommittedTraining, KeepsAsMuchAsWasTold) {
  const Run whole = run(GetParam().rounds.back(), commits("kept"));
  for (int worker = 0; worker < workers(); ++worker) {
    int64_t bytes = 0;
    for (const NamedTensor& each : read_safetensors(file("kept", worker)))
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

// Those that repeat none.
Committed counted(Committed training) {
  training.source = "12-24-18-10-5";
  training.repeats_bits = false;
  return training;
}

INSTANTIATE_TEST_SUITE_P(
    Counted, CommittedTraining,
    testing::Values(
        counted({.workers = 2, .replicas = 2, .consistency = "ssp:2"}),
        counted({.workers = 2, .replicas = 2, .consistency = "async", .push = 3, .fetch = 2}),
        counted({.workers = 1, .replicas = 4, .consistency = "async", .groups = 2}),
        counted({.workers = 2, .replicas = 2, .consistency = "async", .groups = 2, .push = 2})));

// Before the first direction, and after one iteration and several.
INSTANTIATE_TEST_SUITE_P(
    Lbfgs, CommittedTraining,
    testing::Values(
        Committed{.source = "12-10-5", .lbfgs = true, .rounds = {1, 8, 20, 40}},
        Committed{
            .workers = 2, .replicas = 2, .source = "dropping", .lbfgs = true, .rounds = {1, 20}}));

}  // namespace
}  // namespace kerf::schedmp::tests
