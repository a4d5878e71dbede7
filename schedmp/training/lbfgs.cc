#include "schedmp/training/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

void require_option(bool fine, const std::string& what) {
  if (!fine) throw Error(ErrorCode::kUsage, what);
}

bool is_bound(double value) { return value >= 0 && std::isfinite(value); }

}  // namespace

Lbfgs::Lbfgs(LbfgsOptions options)
    : options_(options), history_(std::clamp(options.history, 1, kMostHistory)) {
  const LbfgsOptions& o = options_;
  require_option(o.history >= 1 && o.history <= kMostHistory,
                 format("a history of {} pairs is not within 1 and {}", o.history, kMostHistory));
  require_option(o.most_iterations >= 0 && o.most_evaluations >= 1 && o.most_trials >= 1,
                 format("{} iterations of {} evaluations, {} in a line search, are none",
                        o.most_iterations, o.most_evaluations, o.most_trials));
  for (const double bound : {o.most_gradient, o.least_decrease})
    require_option(is_bound(bound), format("a tolerance of {} is not 0 or above it", bound));
  command_.act = LbfgsAct::kEvaluate;
}

void Lbfgs::order(Stage stage, VectorWork work) {
  stage_ = stage;
  over_ = stage == Stage::kOver;
  const bool evaluates = stage == Stage::kFirstLoss || stage == Stage::kLoss;
  command_.act = evaluates               ? LbfgsAct::kEvaluate
                 : stage == Stage::kOver ? LbfgsAct::kStop
                                         : LbfgsAct::kVectors;
  command_.work = std::move(work);
}

void Lbfgs::tell(double loss) {
  KERF_CHECK(command_.act == LbfgsAct::kEvaluate, "a loss that nobody asked for");
  ++evaluations_;
  if (stage_ == Stage::kFirstLoss) {
    loss_ = loss;
    return std::isfinite(loss) ? accept() : end(false, format("the loss at the start is {}", loss));
  }
  if (!std::isfinite(loss)) return take_trial(loss, 0);  // its gradient is none
  trial_loss_ = loss;
  VectorWork work;
  work.dot(kGradient, kDirection);
  order(Stage::kSlope, std::move(work));
}

void Lbfgs::tell(std::span<const double> sums) {
  KERF_CHECK(command_.act == LbfgsAct::kVectors, "sums that nobody asked for");
  KERF_CHECK(sums.size() == nothing_of(command_.work).size(), "{} sums", sums.size());
  switch (stage_) {
    case Stage::kSums:
      return take_sums(sums);
    case Stage::kDirection:
      return take_slope(sums[0]);
    case Stage::kSlope:
      return take_trial(trial_loss_, sums[0]);
    case Stage::kMove:
      return order(Stage::kLoss);
    case Stage::kBack:
      return order(Stage::kOver);
    default:
      KERF_CHECK(false, "sums of no stage");
  }
}

// The point and its gradient become the bases.
void Lbfgs::accept() {
  VectorWork work;
  if (iterations_ > 0) history_.add_pair(work);
  work.set(kBase, kPoint);
  work.set(kBaseGradient, kGradient);
  work.largest(kGradient);
  history_.ask(work);
  order(Stage::kSums, std::move(work));
}

void Lbfgs::take_sums(std::span<const double> sums) {
  largest_gradient_ = sums[0];
  history_.take(sums.subspan(1));
  if (!ends_here()) find_direction();
}

// By the last point that was accepted, and these options.
bool Lbfgs::ends_here() {
  converged_ = false;
  limited_ = false;
  const auto ends = [&](bool converged, std::string reason) {
    end(converged, std::move(reason));
    return true;
  };
  if (!std::isfinite(largest_gradient_)) return ends(false, "the gradient is not finite");
  if (largest_gradient_ <= options_.most_gradient)
    return ends(true, format("no entry of the gradient is above {}", options_.most_gradient));
  const double scale = std::max({std::abs(loss_), std::abs(last_loss_), 1.0});
  if (iterations_ > 0 && last_loss_ - loss_ <= options_.least_decrease * scale)
    return ends(true, format("the loss fell by no more than {} of it", options_.least_decrease));
  limited_ = iterations_ >= options_.most_iterations;
  if (limited_)
    return ends(false, format("{} iterations are as many as were allowed", iterations_));
  return false;
}

void Lbfgs::go_on() {
  const auto expect = [](bool fine, const std::string& what) {
    if (!fine) throw Error(ErrorCode::kProtocol, what);
  };
  expect(history_.is_sound(), "its pairs are of another history");
  expect(iterations_ >= 0 && evaluations_ > iterations_ && std::isfinite(loss_) &&
             (!converged_ || over_) && (!limited_ || (over_ && !converged_)),
         "no run of L-BFGS is there");
  expect(iterations_ <= options_.most_iterations,
         format("its run made {}, and this one ends after {}", plural(iterations_, "iteration"),
                options_.most_iterations));
  // No other option lets it go on from where a line search failed.
  if (over_ && !converged_ && !limited_) return order(Stage::kOver);
  reason_.clear();
  if (!ends_here()) find_direction();
}

void Lbfgs::find_direction() {
  VectorWork work;
  history_.add_direction(work);
  work.dot(kBaseGradient, kDirection);
  move(Stage::kDirection, std::move(work), first_step());
}

// Pairs know how far it is. Without them the point moves by 1.
double Lbfgs::first_step() const {
  return history_.pairs() > 0 ? 1 : 1 / std::sqrt(history_.squared_gradient());
}

void Lbfgs::take_slope(double slope) {
  if (!(slope < 0)) return fail("no direction goes down");
  search_.emplace(loss_, slope, first_step(), options_.most_trials);
  order(Stage::kLoss);
}

void Lbfgs::take_trial(double loss, double slope) {
  switch (search_->tell(loss, slope)) {
    case LbfgsLineSearch::Verdict::kAccepted:
      last_loss_ = std::exchange(loss_, loss);
      ++iterations_;
      return accept();
    case LbfgsLineSearch::Verdict::kTryStep:
      return move(Stage::kMove, {}, search_->step());
    case LbfgsLineSearch::Verdict::kFailed:
      return fail(
          format("none of {} steps along the gradient lowers the loss as it says; it may "
                 "be as low as rounding lets it be",
                 options_.most_trials));
  }
}

// To where the loss is asked for next.
void Lbfgs::move(Stage stage, VectorWork work, double step) {
  if (evaluations_ >= options_.most_evaluations)
    return go_back(format("{} evaluations are as many as were allowed", evaluations_));
  work.set(kPoint, kBase);
  work.add(kPoint, kDirection, step);
  order(stage, std::move(work));
}

// The pairs may be to blame.
void Lbfgs::fail(std::string reason) {
  if (history_.pairs() == 0) return go_back(std::move(reason));
  history_.forget();
  find_direction();
}

void Lbfgs::go_back(std::string reason) {
  reason_ = std::move(reason);
  VectorWork work;
  work.set(kPoint, kBase);
  order(Stage::kBack, std::move(work));
}

void Lbfgs::end(bool converged, std::string reason) {
  converged_ = converged;
  reason_ = std::move(reason);
  order(Stage::kOver);
}

}  // namespace kerf::schedmp
