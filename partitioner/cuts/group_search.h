// Where groups begin, how many workers each has and in which way it goes: dynamic programming over
// the prices of group_prices.h.
//
//   of given sizes     the least price of the dearest stage: exact under these prices
//   of any sizes       the least dearest stage; and for limits from there on the least sum of all
//                      stages within it, the best few by sum + (M - 1) dearest, a micro-batch's:
//                      PipeDream's replicated stages (Narayanan et al. 2019) and Alpa's stages
//                      (Zheng et al. 2022, arXiv:2201.12023) over one line of layers
//
// Pure functions.
#pragma once

#include <vector>

#include "partitioner/cuts/group_prices.h"

namespace kerf::partitioner {

// Boundaries for groups of these sizes, each in the cheaper way, or those of `by_feature` by
// feature.
Groups best_boundaries(GroupPrices& prices, Groups groups, const GroupSet& by_feature);

// Divisions over so many workers into two groups or more, `most` at most, the most promising first;
// and behind them PipeDream's stages of replicas. No two are alike. Of many layers only boundaries
// where little crosses are looked at.
std::vector<Groups> best_groups(GroupPrices& prices, int workers, int micro_batches, size_t most);

}  // namespace kerf::partitioner
