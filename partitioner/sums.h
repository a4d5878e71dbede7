// Sums: where boxes of a value, or of its gradient, are put together, of what, and in which order.
//
// Sources (sources.h) tells which parts have what a part needs. What is a sum does not always go
// there straight, because a tensor that two parts add up on the way is one tensor less:
//
//   running sum    stages 1, 2 and 3 read v, which stage 0 made: the gradient of v is summed in
//                  reverse model order, 3 ─> 2 ─> 1 ─> 0, one tensor from each, however many of a
//                  stage's operators read v
//   scattered sum  R parts have partial sums of a box that several parts need: each of those that
//                  hold the value sums one slice of the box (a reduce-scatter) and passes it on (an
//                  all-gather), where that is fewer bytes than all summands to all
//
// Neither changes the order in which an element's summands are added, so neither changes a bit.
// Parameters are summed into homes (homes.h) instead, straight.
//
// A running sum goes to an earlier stage only: its backward pass runs later, whatever the schedule.
// Scattered sums meet where the value is held: in the stage that runs first forward and last
// backward of all that have to do with it. Within a stage all parts meet in model order.
//
// A Sums borrows its Sources, is immutable, and may be read by many threads.
#pragma once

#include <vector>

#include "partitioner/sources.h"

namespace kerf::partitioner {

struct Sum {
  enum class Kind : uint8_t {
    kNeeded,   // what the part reads, or the gradient of what it holds
    kRunning,  // of contributions, to be sent on
    kSlice,    // of a scattered sum, to be passed on
  };
  int part = 0;
  Kind kind = Kind::kNeeded;
  ops::Box box;
  std::vector<Source> terms;  // of others they arrive as `leg` says

  std::vector<Contribution> contributions() const;  // in the order in which they are added
};

class Sums {
 public:
  // Throws Error{kUsage} where they come to more routes than a plan may have.
  explicit Sums(const Sources& sources);

  const Sources& sources() const { return sources_; }
  // Of an activation, of what is kept, or of a gradient of either; sums before what is made of
  // them.
  const std::vector<Sum>& of(ValueId value, bool gradient) const {
    return (gradient ? gradients_ : values_)[static_cast<size_t>(value)];
  }
  // Null if there is none.
  const Sum* needed(ValueId value, bool gradient, int part) const;

 private:
  const Sources& sources_;
  std::vector<std::vector<Sum>> values_;     // by value
  std::vector<std::vector<Sum>> gradients_;  // by value
};

// running_sums.cc: those that the gradient of `box` of an activation on `part` is summed from, that
// itself last. `leg`: how the last one's terms arrive.
std::vector<Sum> running_sums(const Sources& sources, ValueId value, int part, const ops::Box& box,
                              Leg leg);

}  // namespace kerf::partitioner
