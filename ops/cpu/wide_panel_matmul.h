// Products of float32 matrices that are not small, on processors with AVX-512 and a second cache of
// 1 MiB or more, where oneDNN 2.6 takes longer (ADR 52).
//
// As panel_matmul.h, with a tile of fourteen rows by thirty-two columns in registers. A block of A
// stays in the second cache. B is laid in slivers of 32 columns, of which there are two: while one
// is multiplied by all tiles of A, the next is laid, a few rows after each tile, of lines that were
// asked for ahead. So laying B costs little, however few rows A has, and reading it is hidden.
// A result's terms are added in blocks that depend on their number only, in order, so its bits are
// the same with any number of threads, and in any part of the rows or columns.
#pragma once

#include <cstddef>

#include "ops/cpu/matmul_problem.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {

// Whether this processor can.
bool has_wide_panels();
// Whether they are the quicker way on this processor: of any product, and of this one.
bool prefers_wide_panels();
bool suits_wide_panels(const MatmulProblem& problem);
// With as many threads as the calling one has, of any problem of one product with at least one
// term; has_wide_panels().
void multiply_wide_panels(const MatmulProblem& problem, Matrix a, Matrix b, const float* bias,
                          float* to, Workspace workspace);
// What that takes with so many threads.
size_t wide_panel_workspace_bytes(const MatmulProblem& problem, int threads);

}  // namespace kerf::ops::cpu
