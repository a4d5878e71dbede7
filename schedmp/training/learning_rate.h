// The learning rate of each step, as the scheduler works it out. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace kerf::schedmp {

// With s the step counted from the end of the warm-up, of S:
//
//   constant            1
//   step:EVERY:FACTOR   FACTOR ^ floor(s / EVERY); EVERY: steps, or epochs as in "step:30e:0.1"
//   cosine              (1 + cos(pi s / S)) / 2 (Loshchilov and Hutter, arXiv:1608.03983)
//
// times the base rate. In a warm-up of W steps, step t from 0 has (t + 1) / W of it.
struct RateSchedule {
  enum class Kind : uint8_t { kConstant, kStep, kCosine };
  Kind kind = Kind::kConstant;
  int64_t every = 1;
  bool epochs = false;  // of them
  double factor = 1;
  int64_t warm_up = 0;  // steps
};

// As it is parsed, without the warm-up.
std::string to_string(const RateSchedule& schedule);
// Throws Error{kUsage} that shows the forms.
RateSchedule parse_rate_schedule(const std::string& text);

// Of step `step`, from 0, of `steps`, so many of them an epoch.
double learning_rate_of(const RateSchedule& schedule, double base, int64_t step, int64_t steps,
                        int64_t steps_per_epoch);

}  // namespace kerf::schedmp
