// A call of a kernel of the CPU as work for a stream. Made and given to the stream by the compute
// thread.
#pragma once

#include "ops/kernel.h"
#include "runtime/host_work.h"

namespace kerf::ops::cpu {

enum class Pass : uint8_t { kForward, kInputGradient, kWeightGradient };

class KernelWork final : public runtime::HostWork {
 public:
  KernelWork(Kernel& kernel, Pass pass, const Call& call, std::span<const GradientTarget> targets)
      : kernel_(kernel), pass_(pass), call_(call), targets_(targets) {}

  Pass pass() const { return pass_; }
  void run() override;
  std::unique_ptr<runtime::QueuedWork> queued() const override;

 private:
  Kernel& kernel_;
  const Pass pass_;
  const Call& call_;
  const std::span<const GradientTarget> targets_;
};

}  // namespace kerf::ops::cpu
