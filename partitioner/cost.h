// Costs: what a box of a node costs in FLOPs, bytes and seconds on a device.
//
// Time is a roofline: max(FLOPs / rate, bytes / bandwidth) + launch, per operator. The speeds are
// the device's, those of a modest CPU core where nobody says; what was measured (profile.h)
// corrects them, operator by operator. Where devices differ (capacities.h), seconds of a worker are
// these over its speed.
#pragma once

#include "partitioner/capacities.h"
#include "partitioner/model.h"
#include "partitioner/profile.h"

namespace kerf::partitioner {

struct DeviceSpeed {
  double flops_per_second = 80e9;
  double bytes_per_second = 10e9;
  double launch_seconds = 2e-6;
  double link_bytes_per_second = 8e9;
  double link_seconds = 20e-6;  // per message
  Profile profile = {};
  Capacities capacities = {};  // of the workers
};

struct LinkCosts {
  double bytes_per_second = 0;
  double seconds = 0;  // per message
};
// Of the link between two workers; and of a link where it is not known which, as likely any.
LinkCosts link_costs(const DeviceSpeed& speed, int worker, int other);
LinkCosts mean_link_costs(const DeviceSpeed& speed);

struct NodeCost {
  ops::Cost work;  // of one micro-batch
  double forward_seconds = 0;
  double input_gradient_seconds = 0;
  double weight_gradient_seconds = 0;
  double total_seconds() const {
    return forward_seconds + input_gradient_seconds + weight_gradient_seconds;
  }
};

// Of the share of `node` that computes `iterations`, for a micro-batch of `samples` rows of
// `largest` at most.
NodeCost node_cost(const Model& model, NodeId node, const ops::Box& iterations, int64_t largest,
                   int64_t samples, const DeviceSpeed& speed = {});

}  // namespace kerf::partitioner
