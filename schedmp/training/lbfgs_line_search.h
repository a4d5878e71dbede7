// A step along a direction that fulfils the strong conditions of Wolfe: with f(t) the objective at
// step t,
//
//   f(t) <= f(0) + 1e-3 * t * f'(0)   and   |f'(t)| <= 0.9 * |f'(0)|
//
// (the numbers are those of SciPy's L-BFGS-B). As Nocedal and Wright's algorithms 3.5 and 3.6,
// turned inside out: who owns it evaluates f where it says. Between two ends the next step is the
// minimum of their cubic, kept away from both; beyond the first the cubic says how far to go on, up
// to four times. Where f is not finite the interval ends. No I/O.
#pragma once

namespace kerf::schedmp {

class LbfgsLineSearch {
 public:
  enum class Verdict { kAccepted, kTryStep, kFailed };

  // `slope` is f'(0), below 0; `first` the step to try first, above it. At most so many trials.
  LbfgsLineSearch(double value, double slope, double first, int most_trials);

  double step() const { return step_; }
  // f and f' at step(). Behind kTryStep there is another; after kFailed none was good.
  Verdict tell(double value, double slope);

 private:
  struct End {
    double step = 0;
    double value = 0;
    double slope = 0;
  };
  void narrow(const End& trial);
  double beyond() const;
  double between() const;
  static double least_of_cubic(const End& a, const End& b);

  double start_value_;
  double start_slope_;
  double step_;
  int trials_left_;
  bool bracketed_ = false;
  End low_;     // the lowest that fulfils the first condition
  End before_;  // what that was before
  End high_;    // once bracketed: a minimum lies between low_ and this
};

}  // namespace kerf::schedmp
