// How far a worker's device has come in a step, for errors that show late.
//
// A GPU that failed answers whatever it is asked with the failure, events too; but what its stream
// wrote to memory of the host before stays. So each piece of work leaves a number there when it is
// done, and the first that did not is where the failure is:
//
//   enqueued  conv1 | relu1 | conv2 | 0F0 | conv1 | ...
//   number        1 |     2 |       |     |       |        -> "conv2, step 3: 0F0"
//
// A device whose errors do not show late leaves no numbers. Owned by the executor; its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/workbench.h"

namespace kerf::schedmp {

class Trail {
 public:
  // Throws as Device::allocate_pinned().
  explicit Trail(ops::Workbench& bench);

  // Of a step that begins now; nothing is under way.
  void begin(int64_t step);
  // Behind all that was enqueued for an operator of an action, or for the action. Names outlive the
  // step. After the first step that was as long it allocates nothing.
  void passed(std::string_view action, std::string_view node = {});

  // Where the device writes how many it is done with of all that were ever passed, and how many
  // those are; null where it is done with all at once. After passed().
  std::shared_ptr<const int64_t> done() const { return late_ ? done_ : nullptr; }
  int64_t last() const { return before_ + std::ssize(places_); }

  // The first that was passed and is not done, "conv2, step 3: 0F0"; empty where all are.
  std::string first_open() const;

 private:
  struct Place {
    std::string_view action;
    std::string_view node;  // empty: the action
  };

  ops::Workbench& bench_;
  std::shared_ptr<int64_t> done_;  // how many of all that were ever passed
  bool late_ = false;              // the device writes there, when it comes to it
  int64_t before_ = 0;
  int64_t step_ = 0;
  std::vector<Place> places_;  // of this step
};

}  // namespace kerf::schedmp
