// Ctrl-C and SIGTERM for the length of a run: the crew is told, and the run ends with exit code
// 130. The second signal ends the process at once; the kernel then ends its workers. At most one
// exists.
#pragma once

#include <memory>

#include "runtime/interrupt.h"

namespace kerf::apps {

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
