// Micro-batches in flight: the question that the planner asks of the floor above.
//
// How many micro-batches a stage holds at once depends on the schedule, which this floor does not
// know; schedmp implements this interface.
#pragma once

#include <memory>
#include <string>

namespace kerf::partitioner {

class InFlight {
 public:
  virtual ~InFlight() = default;
  // Micro-batches whose activations `stage` holds at once, at most. `hops`: on the longest path
  // from it to an end of the stages' graph (stage_graph.h); of a chain at most all that come later.
  virtual int kept(int stage, int hops, int micro_batches) const = 0;
  // Micro-batches whose I has run in a stage and whose W has not, at most; 0 where B runs both.
  virtual int handed(int /*stage*/, int /*hops*/, int /*micro_batches*/) const { return 0; }
  // Whether W runs apart from I anywhere.
  virtual bool splits() const { return false; }
  // Whether the schedule has gradients, or forward passes alone.
  virtual bool trains() const { return true; }
};

// Holds every micro-batch everywhere: right for any schedule, tight for GPipe.
std::unique_ptr<InFlight> hold_everything();

}  // namespace kerf::partitioner
