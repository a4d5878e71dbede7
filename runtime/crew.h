// The crew: a scheduler's workers, seen from the scheduler.
//
// assemble() starts local workers (or waits for those that connect), checks their identity and
// gives them numbers; start() wires them; send() and next() carry tasks and results in batches. A
// worker whose process ends, whose connection breaks, that is silent for `silence`, that says that
// its device is lost, or that owes something (results of tasks, an answer) without progress for
// `no_progress` is lost: next() throws Error{kLost} that names it, what it was doing, and who
// waited for what. What a worker owes the crew counts itself; what the worker says that it does is
// only told. Who waits for another is lost only when all that owe something wait and nothing has
// moved for `no_progress`, or where they wait for each other alone, for `deadlock`. Time in which
// this process stood still (standstill.h) counts for nothing. Destroying a crew ends every worker,
// in order if it can, and reaps every child. Behind the loss of a worker restart() begins again,
// under another epoch: with workers that know nothing of the ones before but what those left in
// kept_file().
//
// A local worker is started as `worker_command --connect ADDRESS --index I --device NAME`.
//
// Threads: one, which outlives the crew (the kernel ties local workers to the thread that assembled
// them), except workers(), which never waits long, and interrupt(), which is also signal-safe.
// While that thread is busy elsewhere, a thread of the crew answers the workers' reports, so that
// none takes a long schedule() or aggregate() for death.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/interrupt.h"
#include "runtime/store_rules.h"
#include "runtime/worker.h"

namespace kerf::runtime {

// Where a worker comes from: equal for the one behind it, whether that is the same process or
// another of the same keeper (keeper.h). The order is of no meaning.
struct Origin {
  std::string host;  // Reach::host
  int process = 0;

  auto operator<=>(const Origin&) const = default;
};

// A place of a crew of before, and who may come back to it.
struct Returning {
  Origin origin;
  int worker = 0;
};

struct CrewOptions {
  int workers = 1;
  int spares = 0;  // that may wait for the place of a lost one, of those that connect
  // Whoever wishes for a number that is not to be had gets no other. A run that others began with
  // more workers grants what it can.
  bool wishes_bind = true;
  std::optional<TransportKind> transport;   // of all pairs; empty: chosen for each
  int threads = 1;                          // per worker
  std::vector<std::string> devices{"cpu"};  // local worker i takes i modulo their number
  std::string listen;                       // empty: start local workers
  std::vector<Returning> returning = {};    // of those that a crew handed over to this one
  Admission admission;                      // of those that connect
  // What workers send each other over tcp. Their secrets are told them on the control connection,
  // so that is to be encrypted, too (Admission::keys).
  bool encrypt_data = false;
  std::vector<std::string> worker_command;  // program and first arguments of a local worker
  Identity identity;
  HandlerFactory handlers;                           // for inproc workers, which are threads
  DeviceFactory make_device = runtime::make_device;  // likewise
  std::shared_ptr<Interrupt> interrupt;              // raise() ends assemble() too; may be null
  std::chrono::milliseconds assemble_timeout{60'000};
  std::optional<std::chrono::milliseconds> restart_timeout;  // of restart(); empty: the same
  // Told of the loss of a worker while the crew is assembled, behind which all begin again, unless
  // it is the third of that worker, or the tenth. Empty: that ends it.
  std::function<void(const Error& loss)> begins_again = {};
  // Told what the crew waits for that is no worker: a disk that does not answer. May be empty.
  std::function<void(const std::string&)> tell = {};
  std::chrono::milliseconds silence = kSilence;
  // The caller knows what one task or action may take: max(30 s, 10 times the longest predicted).
  std::chrono::milliseconds no_progress{30'000};
  // Where all that owe something wait for each other and nothing moves, nobody is left to wake
  // them: max(3 s, 3 times what an action and its messages were predicted to take).
  std::chrono::milliseconds deadlock{3'000};
  // What a whole task may take at most, however much progress the worker reports.
  std::chrono::milliseconds task_limit = std::chrono::hours(24);
};

struct WorkerInfo {
  int worker = 0;
  int pid = 0;
  std::string device;
  int64_t clock_offset_ns = 0;  // add to the worker's clock to get the scheduler's
  int64_t round_trip_ns = 0;
  ActivityReport activity;
  int64_t outstanding = 0;  // tasks whose results it owes
  // What its channels sent again and dropped, and the spans that its trace had no room for, as it
  // told last; with what those before it in its place had told when they were lost.
  int64_t resent = 0;
  int64_t dropped = 0;
  int64_t spans_lost = 0;
};

// One worker's batch of results, in order of its tasks.
struct CrewResults {
  int worker = 0;
  std::vector<std::string> results;
};

class Crew {
 public:
  virtual ~Crew() = default;

  // Told how many have registered so far, and the address that was bound (for a progress line).
  using Waiting = std::function<void(int here, const std::string& address)>;
  // `waiting` may be empty. Throws Error{kUnavailable} for an address in use, Error{kTimeout} that
  // counts who came in time.
  static std::unique_ptr<Crew> assemble(const CrewOptions& options, const Waiting& waiting = {});

  // How messages of two workers cross. Throws Error{kUnavailable} that names both where they cannot
  // as CrewOptions::transport says.
  virtual TransportKind transport_between(int worker, int other) const = 0;
  // Channels between workers, and those of Workplace::service; empty: there are none of these.
  // Returns when all are ready. Once. Throws as transport_between() before anything starts.
  virtual void start(const std::string& program, const std::vector<std::string>& jobs,
                     const LaneTable& send, const LaneTable& serve = {}) = 0;
  virtual void send(int worker, std::vector<std::string> tasks) = 0;
  // The next batch from any worker. Empty when the deadline passed. Throws Error{kLost},
  // Error{kInterrupted}, or what a worker failed with.
  [[nodiscard]] virtual std::optional<CrewResults> next(Deadline deadline) = 0;
  // The worker that ended the run: was lost, or failed. Empty: none did.
  virtual std::optional<int> culprit() const = 0;
  // Whether what was thrown is the loss of a worker, by death, disconnection, silence or the loss
  // of its device, of which others may take the places. One that hangs, or that told why it failed,
  // would do so again; and threads die with all.
  virtual bool can_restart() const = 0;
  // Where it can: ends whoever is left, has others take all places, and wires them and gives them
  // their jobs as start() did. What was sent, or owed, before is void. Throws as assemble() and
  // start() do; an interrupt that is asked for while others are waited for is raised.
  virtual void restart(const Waiting& waiting = {}) = 0;
  // How many registered.
  virtual int here() const = 0;
  // Tells all that connected to register again, with whoever listens at this address next. Then
  // there is nothing left to do but to destroy the crew. Which places they had.
  virtual std::vector<Returning> hand_over() = 0;
  // Of a worker's files in memory of this process, which outlives the worker, the path of number
  // `which`, by which that worker's store opens it. Empty where the system has none to give.
  virtual std::string kept_file(int worker, int which) = 0;
  // Workers of other hosts may use what lies in the folder, by their stores. Those of this host are
  // not asked: they open files as the same user.
  virtual void allow(const std::filesystem::path& folder, StoreAccess access) = 0;
  // Ends all workers in order. Throws if one does not.
  virtual void stop() = 0;
  // Behind it: who was started for the run and has not come yet would go on asking for it. Waits
  // until `all` have come, of all epochs, and ends them; until assemble_timeout from the call of
  // assemble() at most, or until an interrupt is asked for. Throws nothing for whoever does not.
  virtual void await(int all) = 0;
  virtual void interrupt() = 0;
  virtual std::string address() const = 0;
  virtual std::vector<WorkerInfo> workers() const = 0;  // thread-safe
  virtual ControlCounters counters() const = 0;
};

}  // namespace kerf::runtime
