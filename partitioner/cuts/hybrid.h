// The hybrid cut with its prices, for who asks for several numbers of stages in turn. Borrows model
// and request; several threads may use it.
#pragma once

#include <vector>

#include "partitioner/cuts/group_prices.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

class HybridCut {
 public:
  // Of a model before any rewrite.
  HybridCut(const Model& model, const PlanRequest& request);

  // Of a request that is else the same: each group in the cheaper way, those of request.by_feature
  // by feature; all by feature where no weight may be shared, for by sample each member has all
  // weights, and without pairs, for then every product is divided by its outputs.
  Groups groups(const PlanRequest& request);
  // What those stages need rewritten.
  std::vector<Rewrite> rewrites(const PlanRequest& request);
  // As cut_hybrid(), for a task of the model so rewritten, or of one that is not; then all groups
  // go by feature, unless nothing needs a rewrite.
  Assignment make(const CutTask& task);
  GroupPrices& prices() { return prices_; }
  double bound() const { return bound_; }  // no hybrid plan has a lower bottleneck

  // Throws Error{kInfeasible} that names a part which computes nothing, with the way out.
  static void refuse_idle_parts(const Model& model, const PlanRequest& request,
                                const Assignment& assignment);

 private:
  Groups by_feature(const PlanRequest& request);
  std::vector<Rewrite> rewrites_for(const PlanRequest& request, const Groups& groups) const;

  const Model& model_;
  GroupPrices prices_;
  double bound_;
};

}  // namespace kerf::partitioner
