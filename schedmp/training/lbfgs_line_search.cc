#include "schedmp/training/lbfgs_line_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr double kDecrease = 1e-3;
constexpr double kFlatter = 0.9;
constexpr double kNowhere = std::numeric_limits<double>::infinity();

}  // namespace

LbfgsLineSearch::LbfgsLineSearch(double value, double slope, double first, int most_trials)
    : start_value_(value),
      start_slope_(slope),
      step_(first),
      trials_left_(most_trials),
      low_{0, value, slope},
      before_(low_) {
  KERF_CHECK(slope < 0 && first > 0 && most_trials >= 1, "a search along {} by {}", slope, first);
}

LbfgsLineSearch::Verdict LbfgsLineSearch::tell(double value, double slope) {
  const bool finite = std::isfinite(value) && std::isfinite(slope);
  const End trial{step_, finite ? value : kNowhere, slope};
  const bool falls = trial.value <= start_value_ + kDecrease * step_ * start_slope_;
  if (falls && std::abs(slope) <= -kFlatter * start_slope_) return Verdict::kAccepted;
  if (--trials_left_ == 0) return Verdict::kFailed;
  if (!falls || trial.value >= low_.value) {
    high_ = trial;
    bracketed_ = true;
  } else {
    narrow(trial);
  }
  step_ = bracketed_ ? between() : beyond();
  return Verdict::kTryStep;
}

// The minimum is on the side of the trial to which f falls: where high_ is, or would be, or where
// low_ was.
void LbfgsLineSearch::narrow(const End& trial) {
  const double ahead = bracketed_ ? high_.step - low_.step : 1;
  if (trial.slope * ahead >= 0) {
    high_ = low_;
    bracketed_ = true;
  }
  before_ = std::exchange(low_, trial);
}

double LbfgsLineSearch::beyond() const {
  const double gone = low_.step - before_.step;
  const double most = low_.step + 4 * gone;
  const double least = least_of_cubic(before_, low_);
  if (!(least > low_.step)) return most;
  return std::clamp(least, low_.step + 1.1 * gone, most);
}

double LbfgsLineSearch::between() const {
  const double gap = high_.step - low_.step;
  if (!std::isfinite(high_.value)) return low_.step + 0.1 * gap;
  const double part = (least_of_cubic(low_, high_) - low_.step) / gap;
  return low_.step + (std::isfinite(part) ? std::clamp(part, 0.1, 0.9) : 0.5) * gap;
}

// Of the cubic through both (Nocedal and Wright, 3.59); not finite where it has no minimum.
double LbfgsLineSearch::least_of_cubic(const End& a, const End& b) {
  const double gap = b.step - a.step;
  const double mean = a.slope + b.slope - 3 * (b.value - a.value) / gap;
  const double root = std::copysign(std::sqrt(mean * mean - a.slope * b.slope), gap);
  return b.step - gap * (b.slope + root - mean) / (b.slope - a.slope + 2 * root);
}

}  // namespace kerf::schedmp
