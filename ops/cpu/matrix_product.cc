#include "ops/cpu/matrix_product.h"

#include <algorithm>

#include "ops/cpu/panel_matmul.h"
#include "ops/cpu/wide_panel_matmul.h"

namespace kerf::ops::cpu {

void MatrixProduct::run(const Problem& problem, Matrix a, Matrix b, const float* bias, float* to,
                        const Workspace& workspace) {
  if (suits_wide_panels(problem)) return multiply_wide_panels(problem, a, b, bias, to, workspace);
  if (suits_panels(problem)) return multiply_panels(problem, a, b, bias, to, workspace);
  by_library_.run(problem, a, b, bias, to, workspace);
}

size_t MatrixProduct::workspace_bytes(const Problem& problem, bool transposed_a, bool transposed_b,
                                      bool has_bias, int threads) {
  const size_t by_library =
      DnnlMatmul::workspace_bytes(problem, transposed_a, transposed_b, has_bias, threads);
  // Panels suit no call of fewer rows or terms that they do not suit here; but one of fewer columns
  // they may, and of many products one may be left.
  Problem one = problem;
  one.batch = 1;
  if (suits_wide_panels(one)) return std::max(by_library, wide_panel_workspace_bytes(one, threads));
  if (!suits_panels(one)) one.n -= one.n % kPanelColumns;
  if (!suits_panels(one)) return by_library;
  return std::max(by_library, panel_workspace_bytes(one, threads));
}

}  // namespace kerf::ops::cpu
