#include "ops/cuda/fault.h"

#include <exception>
#include <utility>

#include "ops/cuda/cuda_workbench.h"

namespace kerf::ops::cuda {

FaultReport::FaultReport(CudaWorkbench& bench, Refuse refuse)
    : bench_(bench),
      memory_(bench.device().allocate_pinned(sizeof(Fault))),
      refuse_(std::move(refuse)) {
  place() = Fault{};
  bench_.watch(*this);
}

// Calls that look may still be under way, into memory that goes now.
FaultReport::~FaultReport() {
  try {
    bench_.stream().synchronize();
  } catch (const std::exception&) {
    // Whoever ran them was told by that, or by what stopped it.
  }
  bench_.forget(*this);
}

}  // namespace kerf::ops::cuda
