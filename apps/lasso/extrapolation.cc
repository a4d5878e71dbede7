#include "apps/lasso/extrapolation.h"

#include <algorithm>
#include <cmath>

namespace kerf::apps {

namespace {

using Matrix = std::vector<std::vector<double>>;

// Differences that depend on each other have many solutions: a little on the diagonal chooses one.
constexpr double kRidge = 1e-12;

// Of a x = 1, a positive definite but for rounding, by elimination with pivots; empty for 0.
std::optional<std::vector<double>> solved_for_ones(Matrix a) {
  const size_t n = a.size();
  std::vector<double> x(n, 1);
  double scale = 0;
  for (size_t i = 0; i < n; ++i) scale = std::max(scale, a[i][i]);
  if (!(scale > 0)) return std::nullopt;
  for (size_t i = 0; i < n; ++i) a[i][i] += kRidge * scale;
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < n; ++row)
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    std::swap(a[pivot], a[column]);
    std::swap(x[pivot], x[column]);
    for (size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (size_t k = column; k < n; ++k) a[row][k] -= factor * a[column][k];
      x[row] -= factor * x[column];
    }
  }
  for (size_t row = n; row-- > 0;) {
    for (size_t k = row + 1; k < n; ++k) x[row] -= a[row][k] * x[k];
    x[row] /= a[row][row];
  }
  return x;
}

}  // namespace

std::optional<std::vector<double>> extrapolation_of(
    const std::vector<std::vector<double>>& iterates) {
  if (iterates.size() < 2) return std::nullopt;
  const size_t count = iterates.size() - 1;
  Matrix products(count, std::vector<double>(count));
  for (size_t row = 0; row < iterates[0].size(); ++row)
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; j <= i; ++j)
        products[i][j] +=
            (iterates[i + 1][row] - iterates[i][row]) * (iterates[j + 1][row] - iterates[j][row]);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i + 1; j < count; ++j) products[i][j] = products[j][i];
  std::optional<std::vector<double>> weights = solved_for_ones(products);
  if (!weights) return std::nullopt;
  double sum = 0;
  for (const double each : *weights) sum += each;
  for (double& each : *weights) {
    each /= sum;
    if (!std::isfinite(each)) return std::nullopt;
  }
  return weights;
}

}  // namespace kerf::apps
