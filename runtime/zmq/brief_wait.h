// How long a scheduler waits awake before it sleeps.
//
// A processor without work halts, and waking one takes some 20 us in a virtual machine, for each
// thread on the way of a message: most of the time of rounds that follow each other one by one. So
// whoever got what it waited for within 200 us, as a rule, stays awake that long, letting others
// run meanwhile, and its processor does not halt. Where waits are longer, as behind steps of
// training, it sleeps at once; and where they are under 8 us, since then others are at work all the
// time, no processor halts, and whoever waits awake only takes turns from them. Belongs to the
// thread that waits.
#pragma once

#include <sched.h>

#include <algorithm>

#include "runtime/time.h"

namespace kerf::runtime {

template <class Time = Clock>
class BriefWait {
 public:
  // Waits for `come()`; false where it is time to sleep, of which slept() tells that it came.
  template <class Come>
  bool awake(const Come& come, Deadline deadline) {
    begin_ = Time::now();
    if (usual_ < kMoment || usual_ > kBrief) return false;
    const auto end = std::min(deadline, begin_ + kBrief);
    while (!come()) {
      if (Time::now() >= end) return false;
      ::sched_yield();
    }
    learn();
    return true;
  }
  void slept() { learn(); }

 private:
  static constexpr Clock::duration kMoment = std::chrono::microseconds(8);
  static constexpr Clock::duration kBrief = std::chrono::microseconds(200);

  // One wait of many is no rule: a quarter of it counts, and at most so much.
  void learn() { usual_ += (std::min(Time::now() - begin_, 4 * kBrief) - usual_) / 4; }

  Clock::time_point begin_;
  Clock::duration usual_ = 2 * kBrief;  // of waits, about
};

}  // namespace kerf::runtime
