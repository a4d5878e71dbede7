// The one price of a stage, for every cut: what the objective counts, and the time on the wire.
//
//   time            seconds of computing, forward and gradients, and of each value that it receives
//                   and each gradient that it returns: the reader pays for both ways
//   forward-flops   FLOPs alone
//
// All of one step. Pure functions.
#pragma once

#include <utility>
#include <vector>

#include "partitioner/cost_graph.h"
#include "partitioner/cut.h"

namespace kerf::partitioner {

class Sources;

// Of a box of a node's iterations.
Work node_work(const Model& model, const PlanRequest& request, NodeId node,
               const ops::Box& iterations);
// The same, each box of a node once: for who prices many plans of one model.
class NodeWorks {
 public:
  NodeWorks(const Model& model, const PlanRequest& request);
  double total(NodeId node, const ops::Box& iterations);

 private:
  const Model& model_;
  const PlanRequest& request_;
  std::vector<std::vector<std::pair<ops::Box, double>>> known_;  // by node
};
// Of messages on the wire; 0 where FLOPs are counted.
double wire_price(const PlanRequest& request, double bytes, double messages);
// The same between two workers, whose link may be another than most.
double wire_price(const PlanRequest& request, double bytes, double messages, int worker, int other);

// worker -> price of its stages, of a plan whose layouts, binding and routes are set.
std::vector<double> worker_prices(const Model& model, const Plan& plan, const PlanRequest& request);
// The same of what is not yet a plan; the request says the binding. Where computing alone comes to
// `enough`, that: it is not connected then.
double bottleneck_of(const Sources& sources, const PlanRequest& request, NodeWorks& works,
                     double enough);
// The most of them.
double bottleneck_of(const Model& model, const Plan& plan, const PlanRequest& request);

}  // namespace kerf::partitioner
