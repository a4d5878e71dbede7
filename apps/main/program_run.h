// What the commands of all programs have in common: how many workers there are, how they are
// started and reached, when to stop, what to show; and the run itself.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/main/crew_flags.h"
#include "apps/main/drive.h"
#include "apps/report/history.h"
#include "runtime/json.h"
#include "schedmp/encoded_program.h"
#include "schedmp/program.h"
#include "schedmp/scheduler.h"

namespace kerf::apps {

class ProgramRun {
 public:
  // `programs` outlive this.
  explicit ProgramRun(const schedmp::ProgramFactories& programs) : programs_(programs) {}

  // `divided` is what the workers share out among them, for the help: "Rows".
  void add_flags(CLI::App& command, const std::string& divided);
  // What was given, before anything is read, and what a killed run left in memory, before its time
  // is over. Throws Error{kUsage} that names the flag.
  void check();

  // How many workers there are: as was given, else two, or one where there is no more to divide.
  // Throws Error{kUsage} where more were given than `parts`, which `what` says ("rows of x.mtx").
  int workers(int64_t parts, const std::string& what) const;
  // Throws Error{kInfeasible} where this host has not so many bytes, of each worker; `way_out` says
  // what to change.
  void expect_memory(const std::vector<double>& bytes, const std::string& way_out) const {
    check_host_memory(crew_flags_, bytes, way_out);
  }
  // --max-seconds; 0: no limit.
  double most_seconds() const { return most_seconds_; }

  // Runs the program, which tells `history`, to its end, with a bar; keeps the snapshots that were
  // asked for. Throws what ended it otherwise.
  template <class Messages>
  schedmp::LoopReport drive(schedmp::SchedulerHalf<Messages>& program, int workers,
                            History& history, HistoryProgress::Part part = {}) {
    schedmp::ProgramTrace trace;
    schedmp::Encoded<Messages> encoded(program, trace_.empty() ? nullptr : &trace);
    return drive(encoded, workers, {history, std::move(part)}, trace);
  }

  // Behind what the program writes itself: the trace and the picture, where they were asked for,
  // and on the standard output a table of the history, `line`, and what is counted apart, or by
  // --json `members`, that, and the history. Then the run is over, and nothing of --keep-workers is
  // left.
  void answer(const History& history, const std::string& title, const Json& members,
              const std::string& line);

 private:
  struct Shown {
    History& history;
    HistoryProgress::Part part;
  };
  void add_snapshot_flags(CLI::App& command);
  schedmp::SnapshotOptions snapshots();
  schedmp::RunTold told() const;
  schedmp::LoopReport drive(schedmp::EncodedProgram& program, int workers, const Shown& shown,
                            schedmp::ProgramTrace& trace);

  const schedmp::ProgramFactories& programs_;
  const CLI::App* command_ = nullptr;
  CrewFlags crew_flags_;
  std::optional<int> workers_;
  double most_seconds_ = 0;
  std::string picture_, trace_;
  std::vector<runtime::WorkerTrace> traced_;
  CountedApart apart_;
  std::string snapshot_, resume_;  // folders
  std::optional<int64_t> snapshot_rounds_;
  std::optional<double> snapshot_seconds_;
  std::optional<int> keep_workers_;              // seconds
  std::shared_ptr<schedmp::LeftMemory> left_;    // of the run that is gone on with
  std::shared_ptr<schedmp::KeptMemory> memory_;  // until the program's answer is there
  bool json_ = false;
};

}  // namespace kerf::apps
