// Products of float32 matrices that are not small, on processors with AVX2 and without AVX-512,
// where oneDNN 2.6 takes some 6 % longer (ADR 52).
//
// After Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008): both
// matrices are laid in panels that stay in the caches, and a kernel in registers multiplies a
// panel of six rows by one of sixteen columns. A result's terms are added in blocks of k, in
// order, so its bits are the same with any number of threads, and in any part of the rows or
// columns.
#pragma once

#include <cstddef>

#include "ops/cpu/matmul_problem.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {

// Of a whole tile. Of few columns, panels suit whole tiles only.
inline constexpr int64_t kPanelColumns = 16;

// Whether this processor can.
bool has_panels();
// Whether they are the quicker way.
bool suits_panels(const MatmulProblem& problem);
// With as many threads as the calling one has, of any problem of one product with at least one
// term; has_panels().
void multiply_panels(const MatmulProblem& problem, Matrix a, Matrix b, const float* bias, float* to,
                     Workspace workspace);
// What that takes with so many threads.
size_t panel_workspace_bytes(const MatmulProblem& problem, int threads);

}  // namespace kerf::ops::cpu
