#include "ops/arithmetic.h"

#include <gnu/libc-version.h>
#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>

#include "ops/cpu/tap_sums.h"
#include "ops/cpu/wide_panel_matmul.h"
#include "runtime/format.h"

namespace kerf::ops {

std::string arithmetic_identity() {
  const dnnl_version_t& version = *dnnl_version();
  return kerf::format("oneDNN {}.{}.{}, isa {:#x}, lanes {}, products {}, libm {}", version.major,
                      version.minor, version.patch,
                      static_cast<unsigned>(dnnl::get_effective_cpu_isa()), cpu::lanes(),
                      cpu::prefers_wide_panels() ? "wide" : "narrow", gnu_get_libc_version());
}

int use_threads(int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(std::max(1, threads));
  return before;
}

}  // namespace kerf::ops
