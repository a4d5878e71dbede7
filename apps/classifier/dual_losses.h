// The losses of linear classifiers, and their duals. With m_i = y_i w . x_i the margin of row i,
//
//   P(w) = 1/2 |w|^2 + sum_i C loss(m_i)
//   D(a) = sum_i dual(a_i) - 1/2 |w(a)|^2,   w(a) = sum_i a_i y_i x_i
//
//                   loss(m)           dual(a)                                  a in
//   hinge           max(0, 1 - m)     a                                        [0, C]
//   squared hinge   max(0, 1 - m)^2   a - a^2 / 4C                             [0, inf)
//   logistic        log(1 + e^-m)     -a log(a/C) - (C - a) log((C - a)/C)     [0, C]
//
// and P(w) >= D(a) for all of them, equal at the optimum (Hsieh et al.: "A dual coordinate descent
// method for large-scale linear SVM", ICML 2008; Yu, Huang and Lin: "Dual coordinate descent
// methods for logistic regression and maximum entropy models", Machine Learning, 2011). Each loss
// is a struct of the same functions. What is known of a row's a is its state: a itself, or where it
// may come too close to C for that, log(a / (C - a)).
//
// Plain values; pure functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/error.h"

namespace kerf::apps {

enum class LinearLoss : uint8_t { kLogistic, kHinge, kSquaredHinge };

struct HingeLoss {
  double c = 1;

  static constexpr double kStart = 0;  // the state of a = 0
  double a(double state) const { return state; }
  double loss(double margin) const { return c * std::max(0.0, 1 - margin); }
  double dual(double state) const { return state; }
  // Where D is largest along a; the row has this margin by now, and this |x|^2.
  double best(double state, double margin, double squares) const {
    return std::clamp(state + (1 - margin) / squares, 0.0, c);
  }
  // Of P - D, what this row adds to it: 0 where it has its best a.
  double gap(double state, double margin) const {
    return margin < 1 ? (c - state) * (1 - margin) : state * (margin - 1);
  }
  // The state of an a between those of two others.
  double between(double from, double to, double part) const { return from + part * (to - from); }
};

struct SquaredHingeLoss {
  double c = 1;

  static constexpr double kStart = 0;
  double a(double state) const { return state; }
  double loss(double margin) const {
    const double lacks = std::max(0.0, 1 - margin);
    return c * lacks * lacks;
  }
  double dual(double state) const { return state - state * state / (4 * c); }
  double best(double state, double margin, double squares) const {
    const double slope = 1 - margin - state / (2 * c);
    return std::max(0.0, state + slope / (squares + 1 / (2 * c)));
  }
  double gap(double state, double margin) const {
    return loss(margin) - dual(state) + state * margin;
  }
  double between(double from, double to, double part) const { return from + part * (to - from); }
};

struct LogisticLoss {
  double c = 1;

  static constexpr double kStart = -HUGE_VAL;
  static double sigmoid(double t) { return 1 / (1 + std::exp(-t)); }
  // log(1 + e^t)
  static double softplus(double t) { return std::max(t, 0.0) + std::log1p(std::exp(-std::abs(t))); }

  double a(double state) const { return c * sigmoid(state); }
  double loss(double margin) const { return c * softplus(-margin); }
  double dual(double state) const {
    const double t = std::abs(state);
    return std::isinf(t) ? 0 : c * (softplus(-t) + t * sigmoid(-t));
  }
  // The zero of t + margin + C |x|^2 (sigmoid(t) - sigmoid(state)), which rises with t at least as
  // fast as t: Newton's steps, and halves of what is known to hold it where they would leave that,
  // or are not half as long as the one before (they may swing within it for ever).
  double best(double state, double margin, double squares) const {
    constexpr int kMostSteps = 100;
    constexpr double kNear = 1e-7;  // the next step would be its square
    const double weight = c * squares, now = sigmoid(state);
    double least = -margin - weight * (1 - now), most = -margin + weight * now;
    double t = std::clamp(state, least, most), last = HUGE_VAL;
    for (int i = 0; i < kMostSteps; ++i) {
      const double s = sigmoid(t);
      const double value = t + margin + weight * (s - now);
      (value > 0 ? most : least) = t;
      const double step = value / (1 + weight * s * (1 - s));
      if (std::abs(step) <= kNear * (1 + std::abs(t))) return t - step;
      const bool inside = t - step > least && t - step < most;
      const double next = inside && std::abs(step) <= last / 2 ? t - step : (least + most) / 2;
      last = std::abs(next - t);
      t = next;
    }
    return t;
  }
  double gap(double state, double margin) const {
    if (std::isinf(state)) return loss(state < 0 ? margin : -margin);
    return c * (softplus(-margin) - softplus(state) + sigmoid(state) * (state + margin));
  }
  double between(double from, double to, double part) const {
    const double in = (1 - part) * sigmoid(from) + part * sigmoid(to);
    const double out = (1 - part) * sigmoid(-from) + part * sigmoid(-to);
    return std::log(in / out);
  }
};

// Calls act(loss) with the loss of that kind.
template <class Act>
decltype(auto) with_loss(LinearLoss kind, double c, const Act& act) {
  switch (kind) {
    case LinearLoss::kLogistic:
      return act(LogisticLoss{c});
    case LinearLoss::kHinge:
      return act(HingeLoss{c});
    case LinearLoss::kSquaredHinge:
      return act(SquaredHingeLoss{c});
  }
  throw Error(ErrorCode::kInternal, format("no loss has the number {}", static_cast<int>(kind)));
}

}  // namespace kerf::apps
