// A crew that runs: its processes or threads, the server they talk to, and who of them is still
// there. crew.cc makes and wires it, crew_listen.cc carries tasks and results and judges, and
// crew_end.cc ends it.
//
// Threads: as Crew. Whoever talks to the server holds listening_: a call of the crew's thread for
// as long as it lasts, or the listener while no call does. Who then changes what the members tell
// of themselves holds mutex_ as well, for a moment: so workers() needs mutex_ alone and never waits
// for a call that listens.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/crew.h"
#include "runtime/inproc_control.h"
#include "runtime/kept_file.h"
#include "runtime/messages.h"
#include "runtime/roster.h"
#include "runtime/standstill.h"
#include "runtime/store_rules.h"
#include "runtime/store_thread.h"

namespace kerf::runtime {

class LiveCrew final : public Crew {
 public:
  explicit LiveCrew(const CrewOptions& options);
  ~LiveCrew() override;

  void assemble(const Waiting& waiting);
  TransportKind transport_between(int worker, int other) const override;
  void start(const std::string& program, const std::vector<std::string>& jobs,
             const LaneTable& send, const LaneTable& serve) override;
  void send(int worker, std::vector<std::string> tasks) override;
  std::optional<CrewResults> next(Deadline deadline) override;
  std::optional<int> culprit() const override { return culprit_; }
  bool can_restart() const override;
  void restart(const Waiting& waiting) override;
  int here() const override;
  std::vector<Returning> hand_over() override;
  std::string kept_file(int worker, int which) override;
  void allow(const std::filesystem::path& folder, StoreAccess access) override;
  void stop() override;
  void await(int all) override;
  void interrupt() override { interrupt_->raise(); }
  std::string address() const override { return server_->address(); }
  std::vector<WorkerInfo> workers() const override;
  ControlCounters counters() const override;

 private:
  static constexpr std::chrono::milliseconds kCheckEvery{100};
  static constexpr std::chrono::milliseconds kListenEvery{200};  // between looks of the listener

  // Of this epoch: its workers, or an address for them.
  void begin_epoch();
  void end_epoch();
  // Of all workers: the next epoch, and nobody is lost.
  void begin_again();
  void wait_for_all(const Waiting& waiting, std::chrono::milliseconds timeout);
  void look_at_spares();
  void tell_connected_to_come_again();
  void wire();
  void start_threads();
  const std::string& device_of(int worker) const;
  void start_processes(std::vector<Member>& members);
  void listen(const std::stop_token& stop);

  // Takes in one message, or what else happens until the deadline, or kCheckEvery.
  void step(Deadline deadline);
  void step() { step(Deadline::max()); }
  std::optional<ControlServer::Incoming> receive(Deadline deadline);
  // The time of this process, for deadlines of its own.
  Clock::time_point own_time();
  void hear(const ControlServer::Incoming& incoming);
  void send_store_answers();
  void drain();
  void check();
  void settle(Clock::time_point since, Clock::duration at_most);
  void fail(Error error);
  void throw_if_over() const;
  void tell_all_to_stop();
  bool all_of_members(bool (*is)(const Member&));
  void check_transports(const LaneTable& send) const;
  // Its end of these channels.
  Wiring wiring_of(size_t self, const LaneTable& send) const;
  // The same, of what workers serve to each other.
  Wiring service_of(size_t self, const LaneTable& serve) const;

  const CrewOptions options_;
  mutable std::mutex listening_;
  mutable std::mutex mutex_;
  std::shared_ptr<Interrupt> interrupt_;
  InprocControl inproc_;
  std::shared_ptr<InprocHub> hub_;
  std::vector<std::jthread> threads_;  // inproc workers; they see when their server goes
  std::unique_ptr<ControlServer> server_;
  StoreRules store_rules_;
  std::optional<StoreThread> store_;  // of a crew that others may join; of the epoch
  std::optional<Roster> roster_;
  std::optional<Error> over_;  // what ended the run; thrown by every later call
  Clock::time_point over_at_;
  std::optional<int> culprit_;  // whose fault it is
  bool lost_ = false;           // that is the loss of a worker which others may replace
  Clock::time_point check_at_;
  std::set<Origin> came_;            // of all epochs
  Clock::time_point awaited_until_;  // whoever has not come yet
  Standstill still_{kListenEvery};
  // What start() was called with.
  struct Started {
    std::string program;
    std::vector<std::string> jobs;
    LaneTable send;
    LaneTable serve;
  };
  std::optional<Started> started_;
  bool stopping_ = false;
  bool handed_over_ = false;  // and so there is nobody to wait for
  uint32_t epoch_ = 0;
  uint64_t token_ = 0;                 // of the epoch
  std::string secret_;                 // likewise: what secrets of pairs are derived from
  ControlCounters before_;             // of the epochs before
  std::vector<Mended> mended_before_;  // likewise, by worker
  std::map<std::pair<int, int>, KeptFile> kept_;
  std::vector<Returning> returning_;  // to the next epoch
  std::jthread listener_;
};

}  // namespace kerf::runtime
