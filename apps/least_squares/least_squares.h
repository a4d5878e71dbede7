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

// A has standard normal entries, b = A x* + noise, all keyed by (seed, row, column): any worker
// makes its own rows. Runs at depth 1: the next block needs the last change.
class LeastSquares : public schedmp::Program {
 public:
  LeastSquares() = default;  // a worker's half
  // `observer`, if any, is told each round's number and objective as it is known.
  using Observer = std::function<void(int64_t round, double objective)>;
  LeastSquares(const LeastSquaresOptions& options, int workers, Observer observer = {});

  std::string name() const override { return "least-squares"; }
  std::string job(int worker) override;
  std::optional<std::vector<schedmp::Task>> schedule(int64_t round) override;
  void aggregate(int64_t round, std::vector<schedmp::Result> results) override;
  void start(runtime::Workplace& workplace, std::string_view job) override;
  std::string update(std::string_view task) override;

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

  // On the scheduler.
  std::vector<double> x_;
  std::vector<int64_t> order_;
  std::vector<int32_t> changed_;  // coordinates of the last round
  std::vector<double> change_;    // how much each changed
  std::vector<double> objectives_;
  double sweep_change_ = 0;
  bool converged_ = false;

  // On a worker.
  std::vector<std::vector<double>> columns_;  // own rows of A, by column
  std::vector<double> residual_;
  runtime::Activity* activity_ = nullptr;
};

// Element (row, column) of A; of b at column == columns.
double matrix_entry(const LeastSquaresOptions& options, int64_t row, int64_t column);

}  // namespace kerf::apps
