// A worker: registers with a scheduler, opens its channels, and does tasks until told to stop.
//
// Two threads, and one of each endpoint's own (channel.h). The control thread (control_thread.h)
// owns the control client: it reports what the worker is doing four times a second, receives tasks
// and sends results. The compute thread (the caller of run_worker) owns the device and the endpoint
// and calls the handler. They exchange messages through queues. An Error in the compute thread
// becomes a kFailed message; a scheduler that is silent for kSilence ends the worker, time in which
// the worker stood still not counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/activity.h"
#include "runtime/channel.h"
#include "runtime/control.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/reach.h"
#include "runtime/store.h"
#include "runtime/trace.h"

namespace kerf::runtime {

// Scheduler and worker each give the other up after hearing nothing for so long.
inline constexpr std::chrono::milliseconds kSilence{3'000};

// What a handler works with. All references outlive the handler.
struct Workplace {
  int worker = 0;
  int workers = 1;
  int threads = 1;
  Device& device;
  Stream& stream;  // of the device: the compute thread's
  Endpoint& endpoint;
  Activity& activity;
  Trace& trace;
  Store& store;  // the run's files: the compute thread's
  // What the worker serves to others goes over this one, in memory of the host; who serves, a
  // thread of the handler's, has it alone.
  Endpoint* service = nullptr;
  // Where `worker` counts within some of the crew: which of the crew their first is.
  int first_worker = 0;
  bool own_process = false;  // which is this worker's alone

  int in_crew(int number) const { return first_worker + number; }
};

// What a worker does; implemented above this floor. Called by the compute thread only. What takes
// longer than the crew's no_progress calls Activity::progress() now and then; waiting for another
// worker, told by Activity::awaits(), may take any time.
class Handler {
 public:
  virtual ~Handler() = default;
  // Channels are open.
  virtual void start(Workplace& workplace, std::string_view job) = 0;
  // One task, one result. Results travel back in the order of tasks. No task begins after kStop.
  virtual std::string update(std::string_view task) = 0;
  // Now and then while there is none: throws what ended a thread of its own.
  virtual void check() {}
};
// By the name of the program in the job. Throws Error{kUsage} for an unknown one.
using HandlerFactory = std::function<std::unique_ptr<Handler>(const std::string& program)>;

// By name, as make_device().
using DeviceFactory = std::function<std::unique_ptr<Device>(const std::string& name)>;

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
  std::string scheduler;  // its control address, for messages
  std::string keys = {};  // to reach it: a folder (keys.h); empty: none are needed
  int index = -1;         // the wish to be worker `index`; -1: any
  int keeper = 0;         // the process that starts another when it dies (keeper.h); 0: none does
  std::string device = "cpu";
  DeviceFactory make_device = runtime::make_device;
  std::optional<Reach> reach = {};  // what it tells of where it is; empty: finds out
  Identity identity;
  std::shared_ptr<InprocHub> hub;  // for workers that are threads
  // How long to wait for a scheduler to answer the registration.
  std::chrono::milliseconds join_timeout{60'000};
  std::chrono::milliseconds silence = kSilence;
  // Called by the control thread when the run is over but the compute thread did not come back
  // within a second: a process ends itself, and prints the error unless `known`: then the
  // scheduler, which started this worker, asked for the end. Empty (threads): it waits for ever.
  std::function<void(const Error&, bool known)> give_up;
  // Called by the control thread when all places of the run are taken, and the worker waits for
  // one. May be empty.
  std::function<void()> waits = {};
  // Called by the control thread when the run begins again, since a worker was lost: a process
  // becomes a new one that registers anew, so that nothing of before can reach what comes. Does not
  // return. Empty (threads, and workers that the scheduler starts itself): never asked for.
  std::function<void()> again;
};

// Serves one run. Returns empty if it ended in order, and the error that ended it if the scheduler
// started this worker and was told, so that it shows the error; throws every other error.
// `control` is this worker's client.
std::optional<Error> run_worker(const WorkerOptions& options, ControlClient& control,
                                const HandlerFactory& handlers);

}  // namespace kerf::runtime
