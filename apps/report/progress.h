// How a run tells that it is alive: on a terminal one line, redrawn at most ten times a second;
// anywhere else one plain line per epoch. Belongs to the scheduler's thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "schedmp/training/training.h"

namespace kerf::apps {

// What tells of a run while it runs.
class ProgressBar {
 public:
  virtual ~ProgressBar() = default;
  // The run is over. Leaves the cursor at the start of an empty line.
  virtual void finish() = 0;
  // The run ended before its time. Leaves the cursor likewise.
  virtual void abandon() = 0;
};

class Progress : public ProgressBar {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // What is counted.
  struct Words {
    std::string epoch = "epoch";
    std::string step = "step";
    std::string loss = "loss";
    std::string rows = "rows";
  };
  struct Options {
    int64_t total_steps = 0;
    int epochs = 1;
    bool epoch_lines = true;  // a line that stays, for each
    Words words;
    bool terminal = false;
    std::function<int()> width;                     // of the terminal, in columns
    std::function<Time()> now;                      // empty: the clock
    std::function<void(const std::string&)> write;  // to the standard error output, flushed
  };

  explicit Progress(Options options);
  void step(const schedmp::StepRecord& record);
  void evaluation(const schedmp::EvaluationRecord& record);
  // Ends the last epoch, too.
  void finish() override;
  void abandon() override;

  // Training only: from the first step's end, without evaluations; by the time that a worker took,
  // where records have it.
  double rows_per_second() const;
  double median_step_seconds() const;

 private:
  void draw(const schedmp::StepRecord& record, Time now);
  std::string bar_line(const schedmp::StepRecord& record, int width);
  // Whole seconds, at least one while steps are left.
  double seconds_left(int64_t steps) const;
  void close_epoch(const schedmp::EvaluationRecord* evaluation);
  void tell_skipped();
  void permanent_line(const std::string& line);

  Options options_;
  // When it was over, by the worker's clock; of a program whose workers do not say, by ours.
  int64_t ended_ns(int64_t on_worker, Time now) const;

  int64_t last_ns_ = 0;
  Time drawn_{};
  bool running_ = false;           // last_ns_ is the end of a step or of an evaluation
  bool bar_ = false;               // one is on the screen
  int width_ = 0;                  // of the terminal when bar_room_ was found
  int bar_room_ = 0;               // columns of the bar: shrinks only, so that it does not jump
  std::vector<double> intervals_;  // seconds, per step but the first
  double seconds_ = 0;             // their sum
  int64_t rows_ = 0;               // of those steps
  int64_t epoch_ = 0;
  int64_t epoch_rows_ = 0;
  double epoch_loss_ = 0;  // sum over rows
  int64_t skipped_ = 0;    // steps in a row, up to now
  schedmp::StepRecord first_skipped_;
};

}  // namespace kerf::apps
