// Ctrl-C and SIGTERM for the length of a run, and SIGHUP, of a terminal that is gone, where that is
// not ignored: the run ends with exit code 130, behind a checkpoint where it keeps some
// (runtime::Interrupt), for which it has kGraceSeconds; then the crew is told. The second signal
// ends the process at once; the kernel then ends its workers. What comes within kOneSignal of the
// first counts as the same: timeout(1) and managers of jobs send one to the process and to its
// group. At most one exists.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/interrupt.h"

namespace kerf::apps {

// Less than what kills a process behind its SIGTERM leaves it: 30 s of Slurm and of Kubernetes.
inline constexpr unsigned kGraceSeconds = 25;
inline constexpr std::chrono::milliseconds kOneSignal{300};

class Interrupts {
 public:
  Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();

  const std::shared_ptr<runtime::Interrupt>& request() const { return request_; }

 private:
  std::shared_ptr<runtime::Interrupt> request_ = std::make_shared<runtime::Interrupt>();
};

}  // namespace kerf::apps
