// The actions of a row in an order of their own, to compare what two rows have.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "schedmp/schedule.h"

namespace kerf::schedmp {

inline std::vector<Action> sorted(std::vector<Action> row) {
  std::ranges::sort(row, {}, [](const Action& each) {
    return std::tuple(each.stage, each.kind, each.micro_batch);
  });
  return row;
}

}  // namespace kerf::schedmp
