// The versions of its weights that a schedule has each stage keep, and how stale its updates are:
// PipeDream's weight stashing (Narayanan et al. 2019), its double-buffered form (2BW, 2020), and
// what has neither (AMPNet, Gaunt et al. 2017). Pure functions.
#pragma once

#include <vector>

#include "schedmp/schedule.h"

namespace kerf::schedmp {

struct StageVersions {
  // Kept at once, with the newest: as many as there are from it to the oldest that is yet to be
  // read.
  int kept = 1;
  // Updates since the weights that a gradient's forward read, when it is applied, at most: 0 is
  // what a single worker does.
  int staleness = 0;
  bool operator==(const StageVersions&) const = default;
};

// What a worker has of one stage, as its actions come.
class StageWeights {
 public:
  // `places`: for micro-batches that are under way at once.
  explicit StageWeights(int places) : forward_(static_cast<size_t>(places)) {}

  // How many updates behind the newest are the weights that the action reads, when it runs. 0: it
  // reads the newest, or none. `place`: its micro-batch's; of an update none.
  int take(const Action& action, size_t place);
  // Nothing is under way: versions count from here.
  void restart();
  const StageVersions& seen() const { return seen_; }

 private:
  int version(const Action& action, int unsaid) const;
  int reads(int version);

  int updates_ = 0;             // so far: the number of the newest version
  std::vector<int> forward_;    // by place: the version that its micro-batch's forward read
  std::vector<int> unapplied_;  // versions that gradients were made of, since the last update
  StageVersions seen_;
};

// By stage; of one whose text is legal (check_order), and of an endless one in as many periods as
// prove that.
std::vector<StageVersions> versions_of(const Schedule& schedule);

}  // namespace kerf::schedmp
