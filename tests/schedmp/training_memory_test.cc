// What a worker was proved to take follows the transports of its pairs, and it gets no more.
#include <gmock/gmock.h>

#include "runtime/error.h"
#include "runtime/wire.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/training/messages.h"
#include "schedmp/training/proof.h"
#include "tests/schedmp/trained.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

using kerf::tests::error_of;
using partitioner::SlotPlace;
using runtime::TransportKind;
using testing::AllOf;
using testing::HasSubstr;
using namespace tests;

constexpr char kSource[] = "12-24-18-10-5";
constexpr int kWorkers = 3;

const Model& model() {
  static const Model made = make_model(kSource);
  return made;
}
const Plan& plan() {
  static const Plan made = plan_of(model(), {.source = kSource, .workers = kWorkers});
  return made;
}

TrainingOptions options_of(SlotPlace place = SlotPlace::kSender) {
  TrainingOptions options;
  options.model_source = kSource;
  options.dataset = "rows";
  options.batch = plan().batch;
  options.steps = 2;
  options.setting.slot_place = place;
  return options;
}

template <class Kind = Training>
std::unique_ptr<Kind> training_with(const TrainingOptions& options) {
  return std::make_unique<Kind>(factories(), model(), plan(),
                                make_schedule("1f1b", model(), plan()), options);
}

std::vector<int64_t> proved(const Training& training) {
  std::vector<int64_t> bytes;
  for (const WorkerFigures& worker : training.workers()) bytes.push_back(worker.proved_bytes);
  return bytes;
}

// Two workers that are told so exchange messages over `kind`, all others over shm.
TransportTable table_with(int one, int other, TransportKind kind) {
  TransportTable table(kWorkers, std::vector<std::optional<TransportKind>>(
                                     kWorkers, std::optional(TransportKind::kShm)));
  table[static_cast<size_t>(one)][static_cast<size_t>(other)] = kind;
  table[static_cast<size_t>(other)][static_cast<size_t>(one)] = kind;
  return table;
}

TEST(MemoryByPair, CountsSlotsAtBothEndsOfThePairsThatMirrorThem) {
  const auto all_shm = proved(*training_with(options_of()));
  const auto all_tcp = proved(*training_with(options_of(SlotPlace::kBothEnds)));
  std::vector<int64_t> sum = all_shm;
  for (const auto& [one, other] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)}) {
    const auto training = training_with(options_of());
    training->channels_go_over(table_with(one, other, TransportKind::kTcp));
    const auto mixed = proved(*training);
    training->channels_go_over(table_with(one, other, TransportKind::kTcp));
    EXPECT_EQ(proved(*training), mixed) << "of another crew";
    for (int worker = 0; worker < kWorkers; ++worker) {
      const auto at = static_cast<size_t>(worker);
      const bool apart = worker != one && worker != other;
      EXPECT_TRUE(!apart || mixed[at] == all_shm[at]) << "worker " << worker;
      sum[at] += mixed[at] - all_shm[at];
    }
  }
  EXPECT_EQ(sum, all_tcp);
}

TEST(MemoryByPair, IsWhatTheSettingSaidWhereAllAreAsItSaid) {
  for (const auto kind : {TransportKind::kShm, TransportKind::kIpc, TransportKind::kTcp,
                          TransportKind::kInproc, TransportKind::kCuda}) {
    const auto training = training_with(options_of(slot_place_of(kind)));
    const auto before = proved(*training);
    TransportTable table(kWorkers, std::vector<std::optional<TransportKind>>(kWorkers, kind));
    training->channels_go_over(table);
    EXPECT_EQ(proved(*training), before) << to_string(kind);
  }
}

// So what is planned for cuda is refused before any worker is there, not after.
TEST(MemoryByPair, RefusesACapThatTheSettingBreaks) {
  TrainingOptions options = options_of(SlotPlace::kExported);
  const auto on_gpu = proved(*training_with(options));
  options.memory = *std::max_element(on_gpu.begin(), on_gpu.end()) - 1;
  const auto error = error_of([&] { training_with(options); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kInfeasible);
  EXPECT_THAT(error->message(), HasSubstr("memory cap"));
}

// One-way channels: an activation one way, its gradient the other.
TEST(MemoryByPair, CountsWholeBlocksOfAGpu) {
  const auto training = training_with(options_of());
  const auto before = proved(*training);
  training->channels_go_over(table_with(0, 1, TransportKind::kCuda));
  const auto block = static_cast<int64_t>(runtime::kExportedBlock);
  for (const size_t worker : {0U, 1U}) {
    EXPECT_GT(proved(*training)[worker], before[worker] + block / 2);
    EXPECT_LE(proved(*training)[worker], before[worker] + block);
  }
  EXPECT_EQ(proved(*training)[2], before[2]);
}

TEST(MemoryByPair, RefusesACapThatThePairsBreak) {
  TrainingOptions options = options_of();
  const auto all_shm = proved(*training_with(options));
  options.memory = *std::max_element(all_shm.begin(), all_shm.end());
  const auto training = training_with(options);
  TransportTable table(kWorkers, std::vector<std::optional<TransportKind>>(
                                     kWorkers, std::optional(TransportKind::kTcp)));
  const auto error = error_of([&] { training->channels_go_over(table); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kInfeasible);
  EXPECT_THAT(error->message(), AllOf(HasSubstr("worker"), HasSubstr("memory cap")));
}

// Tells a worker of a block less than it needs.
class Stingy : public Training {
 public:
  using Training::Training;
  TrainingJob job(int worker) override {
    TrainingJob job = Training::job(worker);
    job.memory -= worker == 1 ? 64 : 0;
    return job;
  }
};

std::optional<Error> error_of_run(Training& training) {
  const auto crew = kerf::tests::inproc_crew(
      kWorkers, {{"training", [] { return training_worker(factories()); }}},
      [](const std::string& name) { return runtime::make_device(name); });
  return error_of([&] {
    run(training, *crew);
    crew->stop();
  });
}

TEST(MemoryCap, IsWhatWasProvedAndNoMore) {
  EXPECT_FALSE(error_of_run(*training_with(options_of())));
  const auto error = error_of_run(*training_with<Stingy>(options_of()));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("worker 1"), HasSubstr("cpu"), HasSubstr("cap")));
}

}  // namespace
}  // namespace kerf::schedmp
