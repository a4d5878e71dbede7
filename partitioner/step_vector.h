// The step vector: what a step says of itself, as a value of the step.
//
// It is one tensor of float64. Each part has a share of it: of the losses and right answers of the
// micro-batches, of the squared norm of each parameter's summed gradient (where its home is) and of
// what states were told. Shares are sent to one part, the *root*, summed there in the order of the
// parts, and what they come to is sent to every part that updates anything:
//
//   0             the cause: 0 if the step is finite, else the first entry below that is not
//   1             the loss: over the step's rows
//   2             right answers
//   3             squared norm of the gradient: summed in model order
//   4 + m         the loss of micro-batch m
//   4 + M + m     right answers of micro-batch m
//   4 + 2 M + k   of what is kept and has number k (in model order): the squared norm of a
//                 parameter's gradient; of a state, of all that the micro-batches say of it
//
// U reads the cause: a step that is not finite changes nothing that is kept. An entry that one part
// alone has, as every one of a layer cut without shared weights, has the same bits wherever that
// part is; entries of several parts agree within rounding.
//
// Plain values and pure functions; no threads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "partitioner/connector.h"

namespace kerf::partitioner {

class Sources;
struct Plan;

struct StepVector {
  enum Result : int { kCause, kLoss, kCorrect, kSquaredNorm, kResults };

  int micro_batches = 0;
  int kept = 0;  // parameters, states and others

  StepVector(const Model& model, int micro_batches);

  int loss_of(int micro_batch) const { return kResults + micro_batch; }
  int correct_of(int micro_batch) const { return kResults + micro_batches + micro_batch; }
  int norm_of(const Value& kept_value) const {
    return kResults + 2 * micro_batches + static_cast<int>(kept_value.parameter);
  }
  int size() const { return kResults + 2 * micro_batches + kept; }
  static ops::ValueSpec spec(int entries) { return {ops::DType::kFloat64, {entries}}; }
};

// "the loss", "the gradient of fc1.weight", "the statistics for bn1.mean": what an entry from
// kResults on is of.
std::string entry_name(const Model& model, const StepVector& vector, int entry);

// The result of `sums`, all entries of it, to `result`, of kResults: what is of micro-batches added
// in their order, what is of parameters in model order.
void conclude(const Model& model, const StepVector& vector, std::span<const double> sums,
              double* result);

// What a part has to do with the step vector: entries that it says, and whether it updates
// anything.
struct StepMember {
  int part = 0;
  ops::IndexSet says;
  bool updates = false;
};
// Ascending by part; the first is the root.
std::vector<StepMember> step_members(const Sources& sources, int micro_batches);

// The shares' routes to the root, then the result's from it; by part. They count as backward: a
// step without gradients has none. One message each a step; none where there is one member.
std::vector<Route> step_routes(const Sources& sources, int micro_batches, int first_id);

// All routes of a plan, by its division, stages and micro-batches: connect(), and these.
std::vector<Route> all_routes(const Model& model, const Plan& plan);
std::vector<Route> all_routes(const Sums& sums, int micro_batches);

}  // namespace kerf::partitioner
