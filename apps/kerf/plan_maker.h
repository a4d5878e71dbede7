// Makes one plan after another: what a request asks for is cut, chosen by the automatic cut, or
// placed where stages share workers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "apps/kerf/plan_flags.h"
#include "apps/kerf/planned.h"
#include "partitioner/cut.h"

namespace kerf::apps {

// What a plan that was asked for lacks; empty: it was made.
using Lacks = std::optional<partitioner::Infeasible>;

class PlanMaker {
 public:
  // For plans under that schedule. Not `quietly`, it tells on a terminal how far it is. What it
  // does throws SearchStopped soon after it was asked to stop.
  PlanMaker(const PlanFlags& flags, const std::string& schedule, bool quietly,
            std::stop_token stop);
  PlanMaker(const PlanMaker&) = delete;
  PlanMaker& operator=(const PlanMaker&) = delete;

  const PlanFlags& flags() const { return flags_; }
  const partitioner::InFlight& in_flight() const { return *in_flight_; }
  bool is_automatic() const;
  // Whether the schedule wants several of every stage.
  bool has_replicas() const { return has_replicas_; }

  // Puts the plan, with the replicas that its schedule wants of every stage, in the place of
  // planned.plan, and the model as it is rewritten for it in that of planned.model. Throws
  // Error{kUsage} or Error{kInfeasible} where the request cannot be met by more memory or
  // micro-batches.
  Lacks make(const partitioner::PlanRequest& request, Planned& planned) const;
  // The same, where who asks has no use for what would fit; false: nothing does.
  bool make_within(const partitioner::PlanRequest& request, Planned& planned) const;

 private:
  Lacks make_one_replica(const partitioner::PlanRequest& request, Planned& planned) const;
  Lacks replicate(const partitioner::PlanRequest& request, Planned& planned) const;
  std::unique_ptr<partitioner::Objective> step_of(const partitioner::PlanRequest& request,
                                                  const std::function<void()>& on_step) const;
  Lacks cut(const partitioner::PlanRequest& request, Planned& planned) const;
  Lacks place_stages(const partitioner::PlanRequest& request, Planned& planned) const;
  Lacks choose(const partitioner::PlanRequest& request, Planned& planned) const;
  void end_if_stopped() const;

  const PlanFlags& flags_;
  const bool quietly_;
  const std::stop_token stop_;
  const bool has_replicas_;
  std::unique_ptr<partitioner::InFlight> in_flight_;
};

// Several stages on each worker.
bool has_shared_workers(const partitioner::PlanRequest& request);

}  // namespace kerf::apps
