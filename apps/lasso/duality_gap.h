// How far a solution of the Lasso may be from the optimum: by the dual problem
//
//   D(u) = y . u - 1/2 |u|^2   with all |x_j . u| at most lambda
//
// at u = s r, the residual scaled as well as it can be (Kim et al., "An interior-point method for
// large-scale l1-regularized least squares", 2007). Pure functions.
#pragma once

#include <algorithm>
#include <cmath>

namespace kerf::apps {

// Of a solution b with the residual r = y - X b.
struct LassoTerms {
  double residual = 0;         // r . r
  double fit = 0;              // y . r
  double l1 = 0;               // |b|_1
  double largest_product = 0;  // of all |x_j . r|

  template <class Archive>
  void serialize(Archive& archive) {
    archive(residual, fit, l1, largest_product);
  }
};

inline double primal(const LassoTerms& m, double lambda) { return m.residual / 2 + lambda * m.l1; }

inline double dual(const LassoTerms& m, double lambda) {
  if (m.residual <= 0) return 0;
  const double most = m.largest_product > 0 ? lambda / m.largest_product : HUGE_VAL;
  const double scale = std::clamp(m.fit / m.residual, -most, most);
  return scale * m.fit - scale * scale * m.residual / 2;
}

}  // namespace kerf::apps
