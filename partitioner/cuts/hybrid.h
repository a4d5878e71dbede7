// The hybrid cut with its prices, for who asks for several numbers of stages in turn. Borrows model
// and request; used by one thread.
#pragma once

#include "partitioner/cuts/group_prices.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

class HybridCut {
 public:
  HybridCut(const Model& model, const PlanRequest& request);

  // As cut_hybrid(), for a task of this model, and of this request but for the number of stages.
  Assignment make(const CutTask& task);
  GroupPrices& prices() { return prices_; }

 private:
  GroupPrices prices_;
  NodeWorks works_;
  double bound_;
};

}  // namespace kerf::partitioner
