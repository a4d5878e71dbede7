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

// By stage; of one whose text is legal (check_order), and of an endless one in as many periods as
// prove that.
std::vector<StageVersions> versions_of(const Schedule& schedule);

// By action of a row: how many updates of its stage were made since the weights that it reads, when
// it runs. 0: it reads the newest, or none.
std::vector<int> updates_behind(const std::vector<Action>& row);

}  // namespace kerf::schedmp
