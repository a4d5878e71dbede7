// Least squares by parallel block coordinate descent: a program that is not training.
//
// Minimises 1/2 |A x - b|^2. Rows of A are divided over the workers, each of which keeps its rows
// of the residual r = A x - b. A round works on a block of coordinates J:
//
//   schedule   picks J (round robin over a shuffled order), hands on the last round's change of x
//   update     applies the change to r, answers with its share of A_J' r and A_J' A_J
//   aggregate  adds the shares up and solves for J by Gauss-Seidel sweeps
//
// so the objective never rises (Bradley, Kyrola, Bickson, Guestrin: "Parallel coordinate descent
// for L1-regularized loss minimization", ICML 2011, on why blocks must know their own
// correlations).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "schedmp/program.h"

namespace kerf::apps {

struct LeastSquaresOptions {
  int64_t rows = 2000;
  int64_t columns = 200;
  int block = 16;           // coordinates per round
  int sweeps = 20;          // over all coordinates, at most
  double tolerance = 1e-8;  // stop when a whole sweep changes x by less, relative to |x|
  double noise = 0.01;
  uint64_t seed = 1;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(rows, columns, block, sweeps, tolerance, noise, seed);
  }
};

// Coordinates of a round at most: a worker's answer, block x block numbers, is one control message.
int largest_block();

// What the halves say to each other.
struct LeastSquaresJob {
  LeastSquaresOptions options;
  int64_t begin = 0;  // rows of this worker
  int64_t end = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(options, begin, end);
  }
};

// Apply `change` of `changed` first, then answer for `block`. An empty block asks for the
// objective.
struct LeastSquaresTask {
  std::vector<int32_t> changed;
  std::vector<double> change;
  std::vector<int32_t> block;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(changed, change, block);
  }
};

struct LeastSquaresShare {
  double objective = 0;          // of own rows, after the change
  std::vector<double> gradient;  // A_J' r
  std::vector<double> gram;      // A_J' A_J, row-major

  template <class Archive>
  void serialize(Archive& archive) {
    archive(objective, gradient, gram);
  }
};

struct LeastSquaresMessages {
  using Job = LeastSquaresJob;
  using Task = LeastSquaresTask;
  using Result = LeastSquaresShare;
};

// A has standard normal entries, b = A x* + noise, all keyed by (seed, row, column): any worker
// makes its own rows. Runs at depth 1: the next block needs the last change.
class LeastSquares : public schedmp::SchedulerHalf<LeastSquaresMessages> {
 public:
  // `observer`, if any, is told each round's number and objective as it is known.
  using Observer = std::function<void(int64_t round, double objective)>;
  LeastSquares(const LeastSquaresOptions& options, int workers, Observer observer = {});

  std::string name() const override { return "least-squares"; }
  Job job(int worker) override;
  Decision schedule(int64_t round) override;
  void aggregate(int64_t round, std::vector<Result> results) override;

  const std::vector<double>& solution() const { return x_; }
  // 1/2 |A x - b|^2 before the first round and after each.
  const std::vector<double>& objectives() const { return objectives_; }
  bool converged() const { return converged_; }

 private:
  std::vector<int32_t> block_of(int64_t round) const;
  bool last_sweep_was_still(int64_t round);

  LeastSquaresOptions options_;
  int workers_ = 1;
  Observer observer_;

  std::vector<double> x_;
  std::vector<int64_t> order_;
  std::vector<int32_t> changed_;  // coordinates of the last round
  std::vector<double> change_;    // how much each changed
  std::vector<double> objectives_;
  double sweep_change_ = 0;
  bool converged_ = false;
};

class LeastSquaresWorker : public schedmp::WorkerHalf<LeastSquaresMessages> {
 public:
  void start(runtime::Workplace& workplace, const LeastSquaresJob& job) override;
  LeastSquaresShare update(const LeastSquaresTask& task) override;

 private:
  std::vector<std::vector<double>> columns_;  // own rows of A, by column
  std::vector<double> residual_;
  runtime::Activity* activity_ = nullptr;
};

// Element (row, column) of A; of b at column == columns.
double matrix_entry(const LeastSquaresOptions& options, int64_t row, int64_t column);

}  // namespace kerf::apps
