// A worker: registers with a scheduler, opens its channels, and does tasks until told to stop.
//
// Two threads. The control thread owns the control client: it reports what the worker is doing twice
// a second, receives tasks and sends results. The compute thread (the caller of run_worker) owns the
// device and the endpoint and calls the handler. They exchange messages through queues. An Error in
// the compute thread becomes a kFailed message; a scheduler that is silent for 3 s ends the worker.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/activity.h"
#include "runtime/channel.h"
#include "runtime/control.h"
#include "runtime/device.h"
#include "runtime/trace.h"

namespace kerf::runtime {

// What a handler works with. All references outlive the handler.
struct Workplace {
  int worker = 0;
  int workers = 1;
  int threads = 1;
  Device& device;
  Endpoint& endpoint;
  Activity& activity;
  Trace& trace;
};

// What a worker does; implemented above this floor. Called by the compute thread only.
class Handler {
 public:
  virtual ~Handler() = default;
  // Channels are open.
  virtual void start(Workplace& workplace, std::string_view job) = 0;
  // One task, one result. Results travel back in the order of tasks.
  virtual std::string update(std::string_view task) = 0;
};
// By the name of the program in the job. Throws Error{kUsage} for an unknown one.
using HandlerFactory = std::function<std::unique_ptr<Handler>(const std::string& program)>;

// What must be equal at all members of a run; compared at registration.
struct Identity {
  std::string build;         // version of the executable and a hash of it
  std::string instructions;  // instruction set and library versions that decide rounding

  template <class Archive>
  void serialize(Archive& archive) {
    archive(build, instructions);
  }
  bool operator==(const Identity&) const = default;
};

struct WorkerOptions {
  std::string scheduler;  // its control address
  int index = -1;         // the wish to be worker `index`; -1: any
  std::string device = "cpu";
  Identity identity;
};

// Serves one run and returns in order, or throws what ended it. `control` is this worker's client.
void run_worker(const WorkerOptions& options, ControlClient& control, const HandlerFactory& handlers);

}  // namespace kerf::runtime
