// Replicas that share their weights, and L-BFGS, go on from snapshots: to the same bits where a run
// repeats its own, and elsewhere with every gradient that was pushed by then, once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "runtime/json.h"
#include "schedmp/training/replica_slices.h"
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
  for (size_t i = 0; i < a.evaluations.size(); ++i)
    EXPECT_EQ(a.evaluations[i].loss, b.evaluations[i].loss) << i;
}

Case of_replicas(int count, const std::string& consistency, int workers = 1) {
  Case c{.workers = workers, .batch = 7, .micro_batches = 3, .steps = 13};
  c.optimizer.learning_rate = 0.05;
  c.replicas = {.count = count, .consistency = parse_consistency(consistency)};
  return c;
}

Case by_lbfgs(int replicas = 1, int workers = 1) {
  Case c{.source = "12-10-5", .workers = workers, .batch = 8, .micro_batches = 3};
  c.optimizer = {};
  c.replicas.count = replicas;
  c.lbfgs = LbfgsOptions{.history = 3, .most_iterations = 9};
  return c;
}

class ReplicaSnapshots : public testing::Test {
 protected:
  fs::path kept() const { return folder_ / "kept"; }
  Answer take(Case c, int64_t steps) {
    fs::remove_all(kept());
    c.snapshots = {.folder = kept(), .every = steps, .keep = 1000};
    return train(c);
  }
  // The newest would be resumed.
  void leave_alone(int64_t number) {
    bool is_there = false;
    for (const NumberedFolder& each : checkpoints_in(kept()))
      if (each.number > number)
        remove_checkpoint(each.path);
      else
        is_there |= each.number == number;
    EXPECT_TRUE(is_there) << number;
  }
  Answer resume(Case c) {
    c.snapshots = {.resume = kept()};
    return train(c);
  }
  void expect_goes_on(const Case& c, int64_t steps) {
    const Answer plain = train(c);
    expect_same_run(take(c, steps), plain);
    leave_alone(steps);
    expect_same_run(resume(c), plain);
  }
  std::vector<PlacedPart> parts(int64_t number) const {
    const fs::path checkpoint = checkpoint_path(kept(), number);
    return placed_pieces(checkpoint, read_manifest(checkpoint));
  }
  // Of every trained tensor.
  std::set<int64_t> updates(int64_t number, const Case& c, int group = 0) const {
    const Model model = make_model(c.source);
    runtime::LocalStore store;
    StoredSlices slices(store, parts(number));
    std::set<int64_t> found;
    for (const partitioner::ValueId id : model.kept_values())
      if (model.value(id).role == ops::Role::kParameter)
        found.insert(read_count(slices, kind_of_group(group, kUpdates), model.value(id)));
    return found;
  }

  kerf::tests::TemporaryFolder folder_;
};

// ---- the same bits

TEST_F(ReplicaSnapshots, OfSynchronousTables) {
  for (const char* optimizer : {"sgd", "adam", "adagrad"})
    for (const int64_t steps : {1, 5}) {
      Case c = of_replicas(2, "ssp:0", 2);
      c.optimizer = {.name = optimizer, .learning_rate = 0.01};
      expect_goes_on(c, steps);
    }
}

// Within a period, where each replica has weights of its own, and at its end.
TEST_F(ReplicaSnapshots, OfAveragesWhereverTheyAreTaken) {
  for (const int64_t steps : {3, 4, 5, 11}) expect_goes_on(of_replicas(3, "average:3"), steps);
  Case adam = of_replicas(2, "average:4", 2);
  adam.optimizer = {.name = "adam", .learning_rate = 0.01};
  expect_goes_on(adam, 6);
  expect_goes_on(of_replicas(2, "average:1", 2), 6);
}

TEST_F(ReplicaSnapshots, OfRunningStatisticsAndDropout) {
  for (const char* source : {"filtering", "dropping"})
    for (const char* consistency : {"ssp:0", "average:3"}) {
      Case c = of_replicas(2, consistency, 2);
      c.source = source;
      expect_goes_on(c, 5);
    }
}

TEST_F(ReplicaSnapshots, OfEveryCut) {
  for (const Cut cut : {Cut::kBatch, Cut::kFeature})
    for (const char* consistency : {"ssp:0", "average:3"}) {
      Case c = of_replicas(2, consistency, 2);
      c.cut = cut;
      expect_goes_on(c, 4);
    }
}

TEST_F(ReplicaSnapshots, OfPatienceAndItsBestWeights) {
  for (const int64_t steps : {3, 7}) {
    Case c = of_replicas(2, "ssp:0", 2);
    c.optimizer.learning_rate = 0.8;
    c.steps = 40;
    c.patience = 2;
    expect_goes_on(c, steps);
  }
}

// Layer cuts compute the same bits, so they do from the same tensors.
TEST_F(ReplicaSnapshots, GoOnUnderAnyPlan) {
  for (const char* consistency : {"ssp:0", "average:3"}) {
    for (const Cut cut : {Cut::kFeature, Cut::kBatch, Cut::kLayer}) {
      Case saver = of_replicas(2, consistency, 2);
      saver.cut = cut;
      take(saver, 5);
      const Answer one = resume(of_replicas(2, consistency));
      expect_same_run(resume(of_replicas(2, consistency, 3)), one);
      EXPECT_EQ(one.losses.size(), 13U);
    }
  }
}

TEST_F(ReplicaSnapshots, OfLbfgs) {
  for (const int64_t iterations : {1, 2, 4, 9}) expect_goes_on(by_lbfgs(), iterations);
  expect_goes_on(by_lbfgs(1, 2), 5);
  Case dropping = by_lbfgs(1, 2);
  dropping.source = "dropping";
  expect_goes_on(dropping, 3);
}

// A limit that was lower ends nothing.
TEST_F(ReplicaSnapshots, OfLbfgsLetARunBeLonger) {
  Case c = by_lbfgs();
  c.lbfgs->most_iterations = 5;
  take(c, 5);
  c.lbfgs->most_iterations = 9;
  expect_same_run(resume(c), train(c));
  c.lbfgs->most_iterations = 4;
  const auto refused = kerf::tests::error_of([&] { resume(c); });
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->what(),
              testing::HasSubstr("its run made 5 iterations, and this one ends after 4"));
}

// Limits and tolerances are those of the run that goes on, also where it has nothing left to do.
TEST_F(ReplicaSnapshots, OfLbfgsEndWhereTheRunThatGoesOnWould) {
  const auto with = [](int64_t most_iterations, double most_gradient) {
    Case c = by_lbfgs();
    c.lbfgs->most_iterations = most_iterations;
    c.lbfgs->most_gradient = most_gradient;
    return c;
  };
  const auto expect_end = [](const Answer& answer, size_t iterations, bool converged) {
    EXPECT_EQ(answer.losses.size(), iterations);
    EXPECT_EQ(answer.lbfgs->converged(), converged) << answer.lbfgs->reason();
  };
  const double unreached = 1e-5;
  const Answer plain = train(with(9, unreached));
  take(with(9, unreached), 4);
  leave_alone(4);
  const Answer four = resume(with(4, unreached));
  expect_end(four, 4, false);
  expect_same_run(four, train(with(4, unreached)));
  const double reached = four.lbfgs->largest_gradient();
  expect_end(resume(with(9, reached)), 4, true);
  // By the loss: its smallest step down is the first that is as small.
  Case loose = with(9, unreached);
  size_t last = 1;
  loose.lbfgs->least_decrease = 1;
  for (size_t i = 1; i < plain.losses.size(); ++i) {
    const double scale = std::max(plain.losses[i - 1], 1.0);
    const double fell = (plain.losses[i - 1] - plain.losses[i]) / scale;
    if (fell >= loose.lbfgs->least_decrease) continue;
    loose.lbfgs->least_decrease = fell * (1 + 1e-9);
    last = i;
  }
  ASSERT_LT(last + 1, plain.losses.size());
  expect_end(take(loose, 1), last + 1, true);
  expect_same_run(resume(with(9, unreached)), plain);
}

// Nothing of it is any replica's own.
TEST_F(ReplicaSnapshots, OfLbfgsGoOnWithAnyNumberOfReplicas) {
  const Answer one = take(by_lbfgs(), 4);
  for (const Case& other : {by_lbfgs(3), by_lbfgs(2, 2)}) {
    const Answer answer = resume(other);
    ASSERT_EQ(answer.losses.size(), 9U);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(answer.losses[i], one.losses[i]) << i;
    EXPECT_NEAR(answer.losses[8], one.losses[8], 1e-5);
  }
  take(by_lbfgs(3, 2), 4);
  const Answer alone = resume(by_lbfgs());
  ASSERT_EQ(alone.losses.size(), 9U);
  EXPECT_NEAR(alone.losses[8], one.losses[8], 1e-4);
}

// ---- no gradient is lost, and none counts twice

// Of the 70 rows, 7 of each replica in a step.
TEST_F(ReplicaSnapshots, HaveEveryGradientOnce) {
  struct Way {
    const char* consistency;
    int groups = 1;
    int64_t push = 1, fetch = 1;
  };
  for (const Way& way :
       {Way{"ssp:0"}, {"ssp:2"}, {"async"}, {"async", 2}, {"async", 1, 3, 2}, {"async", 2, 2, 4}}) {
    SCOPED_TRACE(testing::Message() << way.consistency << ", " << way.groups << " groups, "
                                    << way.push << ", " << way.fetch);
    Case c = of_replicas(2, way.consistency, 2);
    c.optimizer = {.name = "adagrad", .learning_rate = 1e-3};
    c.replicas.server_groups = way.groups;
    c.replicas.push_every = way.push;
    c.replicas.fetch_every = way.fetch;
    // Also at the ends of epochs of five, and of both runs.
    const auto pushes = [&](int64_t steps) {
      int64_t count = 0;
      for (int64_t step = 1; step <= steps; ++step)
        if (step % way.push == 0 || step % 5 == 0 || step == 4 || step == 13) ++count;
      return count * 2 / way.groups;
    };
    c.steps = 4;
    take(c, 4);
    EXPECT_THAT(updates(4, c), testing::ElementsAre(pushes(4)));
    c.steps = 13;
    c.snapshots = {.folder = folder_ / "more", .every = 13, .resume = kept()};
    fs::remove_all(folder_ / "more");
    const Answer answer = train(c);
    EXPECT_EQ(answer.losses.size(), 13U);
    fs::rename(folder_ / "more", folder_ / "of these");
    fs::remove_all(kept());
    fs::rename(folder_ / "of these", kept());
    for (int group = 0; group < way.groups; ++group)
      EXPECT_THAT(updates(13, c, group), testing::ElementsAre(pushes(13)));
  }
}

const float* numbers_of(const NamedTensor& tensor) {
  return reinterpret_cast<const float*>(tensor.bytes.data());
}

// With steps so small that no gradient depends on how far others came, weights end where those of
// an undisturbed run do.
TEST_F(ReplicaSnapshots, LoseNothingOnTheWay) {
  Case c = of_replicas(4, "async", 2);
  c.batch = 5;
  c.optimizer = {.learning_rate = 1e-4};
  Case none = c;
  none.steps = 0;
  const Answer begun = train(none);
  for (const auto& [groups, push, fetch] :
       {std::tuple(1, 1, 1), {2, 1, 1}, {4, 1, 1}, {1, 3, 2}, {2, 3, 4}}) {
    c.replicas.server_groups = groups;
    c.replicas.push_every = push;
    c.replicas.fetch_every = fetch;
    const Answer whole = take(c, 5);
    const Answer again = resume(c);
    double change = 0;
    double difference = 0;
    for (size_t i = 0; i < whole.weights.size(); ++i)
      for (int64_t at = 0; at < whole.weights[i].shape.elements(); ++at) {
        const double to = numbers_of(whole.weights[i])[at];
        change = std::max(change, std::abs(to - numbers_of(begun.weights[i])[at]));
        difference = std::max(difference, std::abs(to - numbers_of(again.weights[i])[at]));
      }
    EXPECT_GT(change, 0);
    EXPECT_LT(difference, 0.02 * change) << groups << " groups, " << push << ", " << fetch;
  }
}

// ---- what lies on disk

TEST_F(ReplicaSnapshots, ExportTheWeightsOfAllReplicas) {
  for (const char* source : {"12-24-18-10-5", "filtering"}) {
    Case c = of_replicas(2, "ssp:0", 2);
    c.source = source;
    const Answer answer = take(c, 13);
    runtime::LocalStore store;
    StoredSlices slices(store, parts(13));
    export_weights(make_model(source), slices, folder_ / "weights.safetensors");
    const std::vector<NamedTensor> found = read_safetensors(folder_ / "weights.safetensors");
    ASSERT_EQ(found.size(), answer.weights.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i].bytes == answer.weights[i].bytes) << found[i].name;
  }
}

// Of synchronous tables each box is there once, whoever serves it.
TEST_F(ReplicaSnapshots, AreNoLargerThanWeightsAndStates) {
  Case c = of_replicas(3, "ssp:0", 2);
  const Answer answer = take(c, 13);
  int64_t weights = 0;
  for (const NamedTensor& each : answer.weights) weights += static_cast<int64_t>(each.bytes.size());
  int64_t counts = 0;
  int64_t tensors = 0;
  for (const PlacedPart& part : parts(13))
    for (const NamedTensor& each : read_safetensors(part.file)) {
      const auto bytes = static_cast<int64_t>(each.bytes.size());
      (each.name.starts_with("updates/") ? counts : tensors) += bytes;
    }
  EXPECT_EQ(tensors, 2 * weights);
  EXPECT_EQ(counts, static_cast<int64_t>(8 * answer.weights.size()));
}

TEST_F(ReplicaSnapshots, OfAnotherHistoryAreRefused) {
  take(by_lbfgs(), 4);
  Case other = by_lbfgs();
  other.lbfgs->history = 5;
  const auto refused = kerf::tests::error_of([&] { resume(other); });
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->what(), testing::HasSubstr("its pairs are of another history"));
}

}  // namespace
}  // namespace kerf::schedmp::tests
