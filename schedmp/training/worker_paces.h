// How much longer than at first each worker computes for a step, beside the others: which of them
// another job on its core slows down, or is cooled too little, or is no longer.
//
// What is measured is time, not work: that of a step's actions, less what they waited for others.
// Means of windows of some seconds, so that who is stopped half of the time shows. The first window
// is what the others are compared with. Where all take longer alike, as behind one slow disk, none
// is slower. Plain value; no clock of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kerf::schedmp {

struct PaceOptions {
  int64_t window_ns = 2'000'000'000;  // at least
  int64_t steps = 8;                  // of a window, at least
  size_t windows = 2;                 // in a row that have to agree
  double agree = 1.15;                // times
};

class WorkerPaces {
 public:
  explicit WorkerPaces(int workers, PaceOptions options = {});

  // What a step took each worker, which was whole at `now_ns` of any clock.
  void add(std::span<const int64_t> compute_ns, int64_t now_ns);
  // Windows begin anew, but for the first: what the last were of is over.
  void start_over();
  // Seconds of a step, by worker, in the first window; empty as long as that lasts.
  const std::vector<double>& first() const { return first_; }
  // By worker, how many times as long as then it computes, that of the fastest being 1, in the last
  // windows where these agree. Empty: they do not, or there are not as many yet.
  std::optional<std::vector<double>> slowness() const;
  // From the end of a step to that of the next, in the last window.
  double step_seconds() const { return step_seconds_; }

 private:
  void end_window(int64_t now_ns);

  const PaceOptions options_;
  std::vector<int64_t> sums_;  // of the window
  int64_t steps_ = 0;
  std::optional<int64_t> begin_ns_;
  double step_seconds_ = 0;
  std::vector<double> first_;
  std::vector<std::vector<double>> last_;  // slowness of windows, the newest last
};

// Whether one is so many times the other for some worker, or more.
bool differ(const std::vector<double>& some, const std::vector<double>& others, double times);

// What a change of the plan is weighed by. Seconds.
struct Prospect {
  double before = 0;       // a step by the plan that there is, as predicted by measured speeds
  double after = 0;        // by the other one
  double step = 0;         // as it is
  int64_t steps_left = 0;  // of the run
  double cost = 0;         // of a change
};
// Whether the step gets a tenth shorter, and what is saved of the run is more than the change
// costs.
bool pays(const Prospect& prospect);
// There are no two changes within a minute, or within 20 times what the last cost. Seconds.
bool is_too_soon(double since_last, double cost);

}  // namespace kerf::schedmp
