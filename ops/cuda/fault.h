// What a kernel finds wrong in its data, such as a label that is no class: found on the device,
// told by the host when the step is over.
//
// A body keeps the first that it finds, with the call's micro-batch, in memory of the host that the
// device reaches (fault.cuh); the workbench looks there once, when its stream is done. What follows
// in the stream was enqueued by then: kernels keep within their memory whatever the data say.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/device.h"

namespace kerf::ops::cuda {

class CudaWorkbench;

struct Fault {
  int64_t at = -1;    // the index of the first; -1: all is well
  int64_t value = 0;  // there
  double ratio = 0;   // or this one, of Dropout
  int64_t samples = 0;
  int64_t first_sample = 0;  // both of its call
  int64_t turn = 0;          // of all calls that looked, on one workbench
};

// The place of one kernel's faults, known to its workbench, which outlives it. Owned by the kernel;
// its thread.
class FaultReport {
 public:
  // `refuse(fault)` throws, after the stream was synchronized.
  using Refuse = std::function<void(const Fault& fault)>;
  FaultReport(CudaWorkbench& bench, Refuse refuse);
  FaultReport(const FaultReport&) = delete;
  FaultReport& operator=(const FaultReport&) = delete;
  ~FaultReport();

  CudaWorkbench& bench() const { return bench_; }
  Fault& place() const { return *reinterpret_cast<Fault*>(memory_.get()); }
  const Refuse& refuse() const { return refuse_; }

 private:
  CudaWorkbench& bench_;
  runtime::PinnedMemory memory_;
  Refuse refuse_;
};

}  // namespace kerf::ops::cuda
