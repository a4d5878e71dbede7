// Micro-batches in flight: the question that the planner asks of the floor above.
//
// How many micro-batches a stage holds at once depends on the schedule, which this floor does not
// know; schedmp implements this interface.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace kerf::partitioner {

class Model;        // model.h
struct Part;        // part.h
struct Pipeline;    // stage_graph.h
struct Plan;        // plan.h
struct StageLists;  // part.h

// Of a stage: of how many micro-batches at once, at most, it has what.
struct Flight {
  int kept = 0;              // activations for I (or B)
  int kept_for_weights = 0;  // activations for W (or B)
  int handed = 0;            // what I hands to W; 0 where B runs both
  bool merges = true;        // whether B runs both for any micro-batch
  // Of a stage that recomputes: how many of its micro-batches it does, how many at once have what
  // they were sent alone, at most, and how many that or all else.
  int recomputed = 0;
  int checkpointed = 0;
  int entered = 0;
  // Of one that updates its weights within the step: versions that it keeps at once; else 0.
  int versions = 0;
  // Micro-batches of the next step that are begun in a step, at most, where steps go on.
  int ahead = 0;
  bool operator==(const Flight&) const = default;
};

class InFlight {
 public:
  virtual ~InFlight() = default;
  // By group of the pipeline; where that has one replica and the schedule several, what any of them
  // has. Throws Error{kUsage} where the schedule cannot be one of such a pipeline.
  virtual std::vector<Flight> of(const Pipeline& pipeline, int micro_batches) const = 0;
  // By route, how many messages its two ends hold at once, as a run of the plan is proved: `parts`
  // are lowered for these flights. Empty where that is not known: then no more than flights say.
  virtual std::vector<int> held(const Model& /*model*/, const Plan& /*plan*/,
                                const std::vector<Part>& /*parts*/) const {
    return {};
  }
  // Whether W runs apart from I anywhere.
  virtual bool splits() const { return false; }
  // Whether the schedule has gradients, or forward passes alone.
  virtual bool trains() const { return true; }
  // Whether it updates weights within the step.
  virtual bool updates_within() const { return false; }
};

// By stage, for LowerOptions, whichever of its replicas needs the lists.
std::vector<StageLists> lists_of_stages(const std::vector<Flight>& flights, int stages);

// Holds every micro-batch everywhere: right for any schedule, tight for GPipe.
std::unique_ptr<InFlight> hold_everything();

}  // namespace kerf::partitioner
