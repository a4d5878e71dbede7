// Training by full-batch L-BFGS: Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012,
// section 4.2 (Sandblaster). The scheduler's half is the coordinator: it holds no vector (lbfgs.h),
// and gives small portions of the training rows, options.batch of each, to whichever replica is
// free, so that faster replicas do more of them.
//
//   place -> portion, portion, ... -> collect -> vectors -> (vectors | place | the end)
//
// An iteration is a step of Training's records: its loss and gradient are those of the point that
// it came to, over all rows. At the end come the tests and the weights, as of any training.
//
// With one replica the same run has the same bits; with more these hang on who did which portion.
// Threads as Training.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "schedmp/training/lbfgs.h"
#include "schedmp/training/rounds.h"
#include "schedmp/training/training.h"

namespace kerf::schedmp {

class LbfgsTraining final : public Training {
 public:
  // With options.lbfgs, whose iterations are the run's steps. Throws as Training, and Error{kUsage}
  // as point_tables().
  LbfgsTraining(const TrainingFactories& factories, const partitioner::Model& model,
                const partitioner::Plan& plan, const Schedule& schedule, TrainingOptions options,
                TrainingObserver observer = {}, std::optional<OpenSplits> data = std::nullopt);
  ~LbfgsTraining() override;

  int depth() const override;
  // A portion goes to who is free, not to whose turn it is.
  bool unordered() const override { return true; }
  Decision schedule(int64_t round) override;
  // Between two iterations, so that any number of replicas can go on from there.
  bool rests_before(int64_t round) const override {
    return round == last_round_ ? last_rested_ : rests();
  }
  int64_t progress(int64_t next_round) const override;  // iterations
  std::string snapshot() override;
  void restore(std::string_view snapshot) override;
  void aggregate(int64_t round, std::vector<Result> results) override;

  const Lbfgs& lbfgs() const { return lbfgs_; }
  // Of the training rows, and those of them that have options.batch.
  int64_t portions() const;
  int64_t full_portions() const;
  // How many each replica did, in all evaluations since it began or went on.
  const std::vector<int64_t>& portions_of_replicas() const { return done_; }

 private:
  enum class Phase : uint8_t { kPlace, kPortions, kCollect, kVectors, kAnswer, kLastPlace, kEnd };
  // A round under way.
  struct Open {
    TrainingTask task;
    int replica = -1;  // of a portion, who does it
    size_t missing = 0;
    std::vector<Result> results;
  };

  std::vector<Task> open(int64_t round, TrainingTask task, int replica = -1);
  std::vector<Task> open_everywhere(int64_t round, TaskKind kind);
  Decision next(int64_t round);
  bool rests() const;
  template <class Archive>
  void keep(Archive& archive);
  Decision next_portion(int64_t round);
  Decision next_at_end(int64_t round);
  int free_replica() const;  // -1: none

  void fold(Open open);
  void fold_portion(const TrainingTask& task, std::vector<Result>& results);
  // Once nothing is under way: what L-BFGS asked for.
  void answer();
  void note_iteration();
  void check_start() const;
  void check_restored() const;  // throws Error{kProtocol}

  State& state_;
  Lbfgs lbfgs_;
  TrainingOptions options_at_end_;
  Rounds rounds_at_end_;
  Phase phase_ = Phase::kPlace;
  int64_t sequence_ = 0;
  int64_t last_round_ = -1;  // that was scheduled
  bool last_rested_ = false;
  int64_t first_evaluation_ = 0;  // that it does
  int64_t next_portion_ = 0;
  std::map<int64_t, Open> open_;  // by round
  std::vector<int> under_way_;    // portions, by replica
  std::vector<int64_t> done_;     // likewise
  // Of the evaluation under way, or the last.
  double loss_ = 0;  // sum over rows
  int64_t correct_ = 0;
  int cause_ = 0;  // of the step vector's entries the first that was not finite
  int64_t end_ns_ = 0;
  std::vector<double> sums_;
};

// As options.lbfgs says.
std::unique_ptr<Training> make_training(const TrainingFactories& factories,
                                        const partitioner::Model& model,
                                        const partitioner::Plan& plan, const Schedule& schedule,
                                        TrainingOptions options, TrainingObserver observer = {},
                                        std::optional<OpenSplits> data = std::nullopt);

}  // namespace kerf::schedmp
