// What L-BFGS is to minimise, and where the minimum is.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "tests/schedmp/lbfgs_pieces.h"

namespace kerf::schedmp::tests {

// The value at x; the gradient goes to g, which is 0 before.
using Objective = std::function<double(const std::vector<float>& x, std::vector<double>& g)>;

inline double rosenbrock(const std::vector<float>& x, std::vector<double>& g) {
  double sum = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    const double a = double{x[i + 1]} - double{x[i]} * double{x[i]};
    const double b = 1 - double{x[i]};
    sum += 100 * a * a + b * b;
    g[i] += -400 * a * double{x[i]} - 2 * b;
    g[i + 1] += 200 * a;
  }
  return sum;
}

// sum of c_i / 2 (x_i - 1)^2, c from 1 to `condition`.
inline Objective bowl(double condition) {
  return [=](const std::vector<float>& x, std::vector<double>& g) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double c =
          std::pow(condition, static_cast<double>(i) / static_cast<double>(x.size() - 1));
      const double off = double{x[i]} - 1;
      sum += c / 2 * off * off;
      g[i] = c * off;
    }
    return sum;
  };
}

// Mean of log(1 + exp(-y a.x)) + |x|^2 / 200 over rows that are drawn.
struct Logistic {
  static constexpr size_t kRows = 200, kColumns = 12;
  std::vector<float> rows = normal_floats(kRows * kColumns, 5);
  std::vector<float> noise = normal_floats(kRows, 6);

  double sign(size_t row) const {
    return double{rows[row * kColumns]} - double{rows[row * kColumns + 1]} + double{noise[row]} > 0
               ? 1
               : -1;
  }
  // Value, gradient, and the Hessian where it is asked for.
  double at(const std::vector<double>& x, std::vector<double>& g,
            std::vector<std::vector<double>>* hessian) const {
    double sum = 0;
    for (size_t i = 0; i < kColumns; ++i) {
      sum += x[i] * x[i] / 200;
      g[i] = x[i] / 100;
      if (hessian != nullptr) (*hessian)[i][i] += 0.01;
    }
    for (size_t row = 0; row < kRows; ++row) {
      const float* a = rows.data() + row * kColumns;
      double margin = 0;
      for (size_t i = 0; i < kColumns; ++i) margin += sign(row) * double{a[i]} * x[i];
      sum += std::log1p(std::exp(-margin)) / kRows;
      const double wrong = 1 / (1 + std::exp(margin));
      for (size_t i = 0; i < kColumns; ++i) {
        g[i] -= sign(row) * wrong * double{a[i]} / kRows;
        if (hessian == nullptr) continue;
        for (size_t j = 0; j < kColumns; ++j)
          (*hessian)[i][j] += wrong * (1 - wrong) * double{a[i]} * double{a[j]} / kRows;
      }
    }
    return sum;
  }
  std::vector<double> optimum() const {
    std::vector<double> x(kColumns);
    for (int step = 0; step < 20; ++step) {
      std::vector<double> g(kColumns);
      std::vector<std::vector<double>> h(kColumns, std::vector<double>(kColumns));
      at(x, g, &h);
      for (size_t p = 0; p < kColumns; ++p)  // Gauss's elimination: h is positive definite
        for (size_t i = 0; i < kColumns; ++i) {
          if (i == p) continue;
          const double factor = h[i][p] / h[p][p];
          for (size_t j = 0; j < kColumns; ++j) h[i][j] -= factor * h[p][j];
          g[i] -= factor * g[p];
        }
      for (size_t i = 0; i < kColumns; ++i) x[i] -= g[i] / h[i][i];
    }
    return x;
  }
};

inline Objective logistic() {
  return [of = Logistic()](const std::vector<float>& x, std::vector<double>& g) {
    return of.at({x.begin(), x.end()}, g, nullptr);
  };
}

inline std::vector<float> rosenbrock_start(size_t count) {
  std::vector<float> start(count);
  for (size_t i = 0; i < count; ++i) start[i] = i % 2 == 0 ? -1.2F : 1.0F;
  return start;
}

}  // namespace kerf::schedmp::tests
