// The control plane between threads of one process: queues, no bytes on any wire.
//
// The crew owns the InprocControl; its server and clients share its state and may outlive it. A
// client whose server is gone throws Error{kLost} from receive().
#pragma once

#include <memory>

#include "runtime/control.h"

namespace kerf::runtime {

class InprocControl {
 public:
  InprocControl();
  ~InprocControl();

  // Once. Belongs to the scheduler's thread.
  std::unique_ptr<ControlServer> server();
  // Thread-safe. Its destruction shows at the server as a disconnection.
  std::unique_ptr<ControlClient> connect();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace kerf::runtime
