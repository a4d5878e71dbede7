// A training goes on from a snapshot to the same bits, and under another plan from the same
// tensors; what lies on disk is found out byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "runtime/file.h"
#include "runtime/wire.h"
#include "schedmp/training/rounds.h"
#include "schedmp/training/stored_slices.h"
#include "tests/schedmp/trained.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp::tests {
namespace {

namespace fs = std::filesystem;

void expect_same_run(const Answer& a, const Answer& b) {
  expect_same_bits(a, b);
  EXPECT_EQ(a.gradient_norms, b.gradient_norms);
  ASSERT_EQ(a.evaluations.size(), b.evaluations.size());
  for (size_t i = 0; i < a.evaluations.size(); ++i) {
    EXPECT_EQ(a.evaluations[i].loss, b.evaluations[i].loss) << i;
    EXPECT_EQ(a.evaluations[i].correct, b.evaluations[i].correct) << i;
    EXPECT_EQ(a.evaluations[i].kept, b.evaluations[i].kept) << i;
  }
}

int64_t messages_of(const Answer& answer) {
  int64_t all = 0;
  for (const RouteFigures& each : answer.routes) all += each.messages;
  return all;
}

Case with(Case c, const SnapshotOptions& snapshots) {
  c.snapshots = snapshots;
  return c;
}

class TrainingSnapshots : public testing::Test {
 protected:
  fs::path kept() const { return folder_ / "kept"; }
  SnapshotOptions every(int64_t steps) const { return {.folder = kept(), .every = steps}; }
  SnapshotOptions resumed() const { return {.resume = kept()}; }
  Answer take(const Case& c, int64_t steps) {
    fs::remove_all(kept());
    return train(with(c, every(steps)));
  }
  Answer take_in_pieces(const Case& c, int64_t steps, int64_t most_bytes) {
    fs::remove_all(kept());
    SnapshotOptions options = every(steps);
    options.most_bytes = most_bytes;
    return train(with(c, options));
  }

  // Whole, with snapshots on the way; and from the last of those on, of which the steps behind it
  // are the only ones that run.
  void expect_goes_on(const Case& c, int64_t steps) {
    const Answer plain = train(c);
    const Answer whole = take(c, steps);
    expect_same_run(whole, plain);
    const Answer again = train(with(c, resumed()));
    expect_same_run(again, whole);
    EXPECT_TRUE(messages_of(whole) == 0 || messages_of(again) < messages_of(whole))
        << "from the beginning";
  }

  kerf::tests::TemporaryFolder folder_;
};

const ops::OptimizerOptions kAdam{.name = "adam", .learning_rate = 0.01};

// Steps of 22 of 70 rows: epochs of four steps, and two batches of tests behind each.
TEST_F(TrainingSnapshots, EveryCutGoesOnWithTheSameBits) {
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid})
    for (const int workers : {1, 2, 3}) {
      if (cut == Cut::kHybrid && workers == 1) continue;
      SCOPED_TRACE(testing::Message() << "cut " << static_cast<int>(cut) << ", " << workers);
      expect_goes_on({.cut = cut, .workers = workers, .optimizer = kAdam}, 5);
    }
}

TEST_F(TrainingSnapshots, WhereverItIsTaken) {
  for (const int64_t steps : {1, 3, 4, 6, 7})
    expect_goes_on({.workers = 2, .rates = {.kind = RateSchedule::Kind::kCosine}}, steps);
}

TEST_F(TrainingSnapshots, OfRunningStatisticsAndDropout) {
  for (const char* source : {"filtering", "dropping", "braided"})
    expect_goes_on({.source = source, .workers = 2, .optimizer = kAdam}, 5);
}

// The best weights are those of an epoch before the snapshot, or behind it.
TEST_F(TrainingSnapshots, OfPatienceAndItsBestWeights) {
  for (const double rate : {0.02, 0.3, 1.0})
    for (const int64_t steps : {5, 9, 12})
      expect_goes_on(
          {.workers = 2, .steps = 24, .optimizer = {.learning_rate = rate}, .patience = 3}, steps);
}

TEST_F(TrainingSnapshots, WhatNeverDrainsDrainsWhereItIsTaken) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"})
    expect_goes_on({.workers = 2, .schedule = schedule, .drain_every = 3}, 3);
}

TEST_F(TrainingSnapshots, OfARunThatWasOverSavesItsWeightsAnew) {
  TrainingOptions options;
  options.shards = "shards";
  options.steps = 2;
  options.evaluate = false;
  Rounds over(options, 70, 0);
  while (over.next()) {
  }
  runtime::WireWriter writer;
  over.state(writer);
  const std::string state = writer.take();
  Rounds again(options, 70, 0);
  runtime::WireReader reader(state);
  again.state(reader);
  again.check_restored();
  const auto task = again.next();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->kind, TaskKind::kSave);
  EXPECT_FALSE(again.next());
}

// Best weights are on disk before a snapshot has their evaluation.
TEST_F(TrainingSnapshots, BetweenAnEvaluationAndWhatItKeepsThereIsNone) {
  TrainingOptions options;
  options.shards = "shards";
  options.steps = 4;
  options.patience = 2;
  Rounds rounds(options, 70, 33);
  while (!rounds.waits()) ASSERT_TRUE(rounds.next());
  EXPECT_FALSE(rounds.keeps_next());
  ASSERT_TRUE(rounds.judge(1));
  EXPECT_TRUE(rounds.keeps_next());
  const auto task = rounds.next();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->kind, TaskKind::kSave);
  EXPECT_FALSE(rounds.keeps_next());
}

// ---- another plan

const Case kLayers[] = {{.workers = 1, .optimizer = kAdam},
                        {.workers = 2, .optimizer = kAdam},
                        {.workers = 3, .optimizer = kAdam}};
const Case kOthers[] = {{.cut = Cut::kFeature, .workers = 2, .optimizer = kAdam},
                        {.cut = Cut::kFeature, .workers = 3, .optimizer = kAdam},
                        {.cut = Cut::kBatch, .workers = 3, .optimizer = kAdam},
                        {.cut = Cut::kHybrid, .workers = 3, .optimizer = kAdam}};

// R13. Layer cuts compute the same bits, so they do from the same weights and states.
TEST_F(TrainingSnapshots, OfAnyDivisionGoesOnByAnyOther) {
  for (const Case& saver : kOthers) {
    take(saver, 5);
    const Answer one = train(with(kLayers[0], resumed()));
    for (const Case& loader : kLayers) expect_same_run(train(with(loader, resumed())), one);
  }
  for (const Case& loader : kOthers) {
    take(kLayers[0], 5);
    const Answer one = train(with(loader, resumed()));
    for (const Case& saver : kLayers) {
      take(saver, 5);
      expect_same_run(train(with(loader, resumed())), one);
    }
  }
}

// Running statistics go with the weights, whoever has them.
TEST_F(TrainingSnapshots, OfRunningStatisticsGoesOnUnderAnotherPlan) {
  const Case one{.source = "filtering", .workers = 1, .optimizer = kAdam};
  const Case two{.source = "filtering", .workers = 2, .optimizer = kAdam};
  for (const Case& saver : {one, two}) {
    take(saver, 5);
    expect_same_run(train(with(one, resumed())), train(with(two, resumed())));
  }
}

std::vector<PlacedPart> parts_of(const fs::path& checkpoint) {
  return placed_pieces(checkpoint, read_manifest(checkpoint));
}

// To the bits of one that lies in a file a worker, whatever the size of pieces: a row, some, all.
TEST_F(TrainingSnapshots, InPiecesGoesOnByAnyDivision) {
  std::vector<Case> all(std::begin(kOthers), std::end(kOthers));
  all.push_back(kLayers[1]);
  for (const Case& saver : all) {
    take(saver, 5);
    const size_t workers = parts_of(kept() / "checkpoint-5").size();
    const Answer layers = train(with(kLayers[2], resumed()));
    const Answer features = train(with(kOthers[1], resumed()));
    for (const int64_t most : {1, 200, 1500}) {
      SCOPED_TRACE(testing::Message() << saver.workers << " workers, " << most << " bytes");
      take_in_pieces(saver, 5, most);
      EXPECT_GT(parts_of(kept() / "checkpoint-5").size(), workers);
      expect_same_run(train(with(kLayers[2], resumed())), layers);
      expect_same_run(train(with(kOthers[1], resumed())), features);
    }
  }
}

TEST_F(TrainingSnapshots, APieceHasItsBytesOrOneRow) {
  constexpr int64_t kMost = 500;
  take_in_pieces(kOthers[0], 4, kMost);
  for (const PlacedPart& part : parts_of(kept() / "checkpoint-8")) {
    int64_t bytes = 0;
    int64_t rows = 0;
    for (const NamedTensor& each : read_safetensors(part.file)) {
      bytes += static_cast<int64_t>(each.bytes.size());
      rows += each.shape.rank() == 0 ? 1 : each.shape[0];
    }
    EXPECT_TRUE(bytes <= kMost || rows == 1) << part.file << ": " << bytes << ", " << rows;
  }
}

TEST_F(TrainingSnapshots, ExportsTheWeightsThatTheRunLeaves) {
  for (Case c : kOthers)
    for (const char* source : {"12-24-18-10-5", "braided"}) {
      c.source = source;
      const Answer answer = take(c, 4);
      runtime::LocalStore own_files;
      StoredSlices slices(own_files, parts_of(kept() / "checkpoint-8"));
      export_weights(make_model(source), slices, folder_ / "weights.safetensors");
      const std::vector<NamedTensor> found = read_safetensors(folder_ / "weights.safetensors");
      ASSERT_EQ(found.size(), answer.weights.size());
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(found[i].bytes == answer.weights[i].bytes) << found[i].name;
    }
}

// Copies that calls read are in none; each box is there once.
TEST_F(TrainingSnapshots, TakesNoMoreThanWeightsAndStates) {
  for (const Case& c : kOthers) {
    const Answer answer = take(c, 8);
    int64_t weights = 0;
    for (const NamedTensor& each : answer.weights)
      weights += static_cast<int64_t>(each.bytes.size());
    int64_t tensors = 0;
    for (const PlacedPart& part : parts_of(kept() / "checkpoint-8"))
      for (const NamedTensor& each : read_safetensors(part.file))
        tensors += static_cast<int64_t>(each.bytes.size());
    EXPECT_EQ(tensors, 3 * weights);
  }
}

// ---- what lies on disk

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& each : fs::directory_iterator(folder)) files.push_back(each.path());
  return files;
}

// R12.
TEST_F(TrainingSnapshots, EveryByteCounts) {
  take_in_pieces({.source = "12-3-5", .workers = 2}, 8, 100);
  const fs::path checkpoint = kept() / "checkpoint-8";
  EXPECT_THAT(faults_of(checkpoint), testing::IsEmpty());
  EXPECT_TRUE(fs::exists(checkpoint / "worker-0.1"));
  for (const fs::path& file : files_in(checkpoint)) {
    const std::string bytes = runtime::read_file(file);
    const auto expect_found = [&](const std::string& changed, size_t at) {
      std::ofstream(file, std::ios::binary | std::ios::trunc) << changed;
      EXPECT_FALSE(faults_of(checkpoint).empty()) << file << ", byte " << at;
    };
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
      expect_found(changed, at);
      expect_found(bytes.substr(0, at), at);
    }
    expect_found(bytes + '\n', bytes.size());
    fs::remove(file);
    EXPECT_FALSE(faults_of(checkpoint).empty()) << file;
    EXPECT_TRUE(kerf::tests::error_of([&] { train(with({.source = "12-3-5"}, resumed())); }));
    std::ofstream(file, std::ios::binary) << bytes;
  }
  EXPECT_THAT(faults_of(checkpoint), testing::IsEmpty());
}

// ---- a scheduler's file whose sums are right

// Where its numbers are, of int64_t but for those that say so (Rounds::state).
constexpr size_t kSequence = 0, kStep = 8, kEpoch = 16, kFirst = 24, kTestFirst = 32;
constexpr size_t kEvaluating = 41, kWaits = 43;  // bools
constexpr size_t kLowest = 45;                   // a double
constexpr size_t kInVain = 53;                   // an int
constexpr size_t kRecords = 57;

template <class T>
std::string changed(std::string bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

class WrongSchedulers : public TrainingSnapshots {
 protected:
  // What a run says that is to go on from it; empty: it did.
  std::string told_of(const std::string& scheduler) {
    Checkpoint manifest = read_manifest(checkpoint_);
    manifest.scheduler = write_part(PartWriter(scheduler_file(checkpoint_)), scheduler).part;
    write_manifest(checkpoint_, manifest);
    const auto error = kerf::tests::error_of([&] { train(with(case_, resumed())); });
    return error ? error->what() : "";
  }
  // Within the second epoch of four steps, behind an evaluation; or before the first.
  std::string taken(int64_t at) {
    take(case_, at);
    checkpoint_ = checkpoint_path(kept(), at);
    return runtime::read_file(scheduler_file(checkpoint_));
  }

  Case case_{.source = "12-3-5", .workers = 2, .patience = 3};
  fs::path checkpoint_;
};

TEST_F(WrongSchedulers, AreRefusedByName) {
  const std::string right = taken(6);
  int64_t step = 0;
  std::memcpy(&step, right.data() + kStep, sizeof step);
  ASSERT_EQ(step, 6);
  ASSERT_EQ(told_of(right), "");
  std::vector<std::string> wrongs;
  for (const size_t at : {kSequence, kStep, kEpoch, kFirst, kTestFirst})
    for (const int64_t value : {int64_t{-1}, INT64_MAX, INT64_MIN})
      wrongs.push_back(changed(right, at, value));
  for (const size_t at : {kStep, kEpoch, kFirst, kTestFirst}) {
    int64_t was = 0;
    std::memcpy(&was, right.data() + at, sizeof was);
    wrongs.push_back(changed(right, at, was + 1));
  }
  for (const size_t at : {kEvaluating, kWaits}) wrongs.push_back(changed(right, at, true));
  for (const double value : {std::nan(""), -HUGE_VAL})
    wrongs.push_back(changed(right, kLowest, value));
  for (const int value : {-1, 4, INT32_MAX}) wrongs.push_back(changed(right, kInVain, value));
  for (size_t i = 0; i < wrongs.size(); ++i)
    EXPECT_THAT(told_of(wrongs[i]), testing::HasSubstr("checkpoint-6/scheduler")) << i;
}

TEST_F(WrongSchedulers, WithinAnEvaluationThatHasNoRecordAreRefused) {
  case_.steps = 4;
  EXPECT_THAT(told_of(changed(taken(4), kTestFirst, int64_t{22})),
              testing::HasSubstr("an evaluation that has no record"));
}

TEST_F(WrongSchedulers, OfARunThatWasLongerAreRefused) {
  const std::string right = taken(6);
  case_.steps = 5;
  EXPECT_THAT(told_of(right),
              testing::HasSubstr("its run made 6 steps, and this one ends after 5"));
  case_.steps = 6;
  EXPECT_EQ(told_of(right), "");
}

// Whatever byte is another: it is refused, or the run ends.
TEST_F(WrongSchedulers, NeverCrash) {
  const std::string right = taken(6);
  for (size_t at = 0; at < right.size(); at += at < kRecords ? 1 : 7)
    for (const int bits : {0x01, 0xff})
      told_of(changed(right, at, static_cast<char>(right[at] ^ bits)));
}

// ---- a disk that is full

TEST(FailedParts, AreNotWrittenOnAndTheWorkerIsNotSilent) {
  int alive = 0;
  int written = 0;
  runtime::LocalStore own_files;
  PieceWriter writer(own_files, "/proc/none/worker-0", 8, [&] { ++alive; });
  const ops::ValueSpec spec{ops::DType::kFloat32, {2}};
  const StoredSlice slice{kWeights, "fc", spec, ops::Box::whole(1),
                          [&](const ByteSink&) { ++written; }};
  write_slices({slice, slice}, writer);
  EXPECT_EQ(written, 0);
  EXPECT_GT(alive, 0);
  EXPECT_THAT(writer.finish().failure, testing::HasSubstr("worker-0"));
}

}  // namespace
}  // namespace kerf::schedmp::tests
