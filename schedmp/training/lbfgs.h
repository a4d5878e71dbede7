// L-BFGS whose coordinator holds no vector: Dean et al., "Large Scale Distributed Deep Networks",
// NIPS 2012 (Sandblaster). It says what to do next; its owner has the workers do it, each with its
// pieces (lbfgs_vectors.h), and tells what came back: numbers only.
//
//   while (lbfgs.command().act != LbfgsAct::kStop)
//     if (lbfgs.command().act == LbfgsAct::kEvaluate)
//       lbfgs.tell(loss);     // at kPoint; the gradient lies in kGradient
//     else
//       lbfgs.tell(sums);     // of lbfgs.command().work, over all pieces
//
// An iteration is two commands on vectors beside those of the line search, which are two for each
// evaluation but for the first's:
//
//   pair, bases, sums  ->  direction, first step  ->  [evaluate  ->  slope  ->  (next step)] ...
//
// The iterates are those of L-BFGS with lbfgs_line_search.h. It ends as SciPy's L-BFGS-B does:
// where no entry of the gradient is large, where an iteration lowers the loss by little, at limits,
// and where no step fulfils Wolfe's conditions, neither by the pairs nor, once those are forgotten,
// along the gradient. Then kPoint is the last point that was accepted; kGradient is any.
//
// A state machine without I/O; one thread at a time. The same answers give the same commands.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "schedmp/training/lbfgs_history.h"
#include "schedmp/training/lbfgs_line_search.h"
#include "schedmp/training/lbfgs_vectors.h"

namespace kerf::schedmp {

struct LbfgsOptions {
  int history = 10;  // pairs that are kept, at most kMostHistory
  int64_t most_iterations = 15000;
  int64_t most_evaluations = 15000;
  int most_trials = 20;  // of a line search
  // It has converged where max |g| is at most this, or an iteration lowered the loss by at most
  // so much times the larger of 1 and the loss.
  double most_gradient = 1e-5;
  double least_decrease = 2.2e-9;
};

enum class LbfgsAct : uint8_t { kEvaluate, kVectors, kStop };

struct LbfgsCommand {
  LbfgsAct act = LbfgsAct::kEvaluate;
  VectorWork work = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(act, work);
  }
};

class Lbfgs {
 public:
  // Throws Error{kUsage} on a number that makes no sense.
  explicit Lbfgs(LbfgsOptions options);

  const LbfgsCommand& command() const { return command_; }
  void tell(double loss);
  void tell(std::span<const double> sums);

  // Of the last point that was accepted.
  double loss() const { return loss_; }
  double largest_gradient() const { return largest_gradient_; }
  double gradient_norm() const { return std::sqrt(history_.squared_gradient()); }
  int64_t iterations() const { return iterations_; }
  int64_t evaluations() const { return evaluations_; }
  // Whether it is between two iterations, or over, so that a snapshot of it can be taken: then all
  // that follows hangs on kBase, kBaseGradient, the pairs, and this, as archives want it
  // (schedmp/state.h).
  bool rests() const { return stage_ == Stage::kDirection || (over_ && std::isfinite(loss_)); }
  template <class Archive>
  void state(Archive& archive) {
    history_.state(archive);
    archive(loss_, last_loss_, largest_gradient_, iterations_, evaluations_, converged_, limited_,
            over_, reason_);
  }
  // Behind that: ends there or goes on, as these options say of iterations and tolerances, whatever
  // those of the run were. Throws Error{kProtocol} where it made more iterations than these allow.
  void go_on();

  // Once stopped.
  bool converged() const { return converged_; }
  const std::string& reason() const { return reason_; }

 private:
  // What the command's answer is about.
  enum class Stage : uint8_t { kFirstLoss, kSums, kDirection, kMove, kLoss, kSlope, kBack, kOver };

  void order(Stage stage, VectorWork work = {});
  void accept();
  void take_sums(std::span<const double> sums);
  bool ends_here();
  void find_direction();
  double first_step() const;
  void take_slope(double slope);
  void take_trial(double loss, double slope);
  void move(Stage stage, VectorWork work, double step);
  void fail(std::string reason);
  void go_back(std::string reason);
  void end(bool converged, std::string reason);

  LbfgsOptions options_;
  LbfgsHistory history_;
  std::optional<LbfgsLineSearch> search_;
  Stage stage_ = Stage::kFirstLoss;
  LbfgsCommand command_;
  double loss_ = 0;
  double last_loss_ = 0;  // an iteration before
  double trial_loss_ = 0;
  double largest_gradient_ = 0;
  int64_t iterations_ = 0;
  int64_t evaluations_ = 0;
  bool converged_ = false;
  bool limited_ = false;  // it was over at the most iterations
  bool over_ = false;
  std::string reason_;
};

}  // namespace kerf::schedmp
