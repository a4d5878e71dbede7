#include "partitioner/cuts/least_seconds.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "partitioner/copies.h"
#include "partitioner/cost.h"
#include "partitioner/cuts/least_copies.h"

namespace kerf::partitioner {

namespace {

class LeastSeconds {
 public:
  LeastSeconds(const Sums& sums, const Plan& plan, const PlanRequest& request, bool splits)
      : sources_(sums.sources()),
        model_(sources_.model()),
        plan_(plan),
        request_(request),
        copies_(sums, plan, request.trains),
        splits_(splits),
        sizes_(plan.sizes().counted(plan.batch)),
        clocks_(plan.binding.size()) {}

  double find() {
    for (const Computation& call : sources_.computations()) add(call);
    double most = 0;
    for (size_t part = 0; part < clocks_.size(); ++part) {
      const Clock& clock = clocks_[part];
      const double all = clock.first + clock.rest + clock.gradients;
      const int number = static_cast<int>(part);
      most = std::max({most, all + seconds_of(copies_.afterwards(number), number),
                       all - clock.late + clock.last()});
    }
    return most * (1 - kRounding);
  }

 private:
  // The simulation adds the same seconds in another order.
  static constexpr double kRounding = 1e-9;

  // Of a part; all but `first` and `last` are sums.
  struct Clock {
    double first = 0;      // when its first forward pass is done
    double rest = 0;       // of all other forward passes
    double gradients = 0;  // of all backward passes
    double late = 0;       // of the last of those, and what may come after it
    // From its last gradient of the outputs of an operator to the step's end: what it computes
    // itself, and what those do after it that make what it reads.
    double own = 0;
    double chain = 0;
    double last() const { return std::max(own, chain); }
  };
  // A value, when that pass is done with what makes it.
  struct Made {
    double first = 0;
    double last = 0;
  };

  void add(const Computation& call) {
    const NodeCost least = cost_of(call, sizes_.begin()->first);
    const double speed = speed_of(call.part);
    Clock& clock = clocks_[static_cast<size_t>(call.part)];
    for (const ValueId input : model_.node(call.node).inputs) await(input, call);
    clock.first += least.forward_seconds / speed;
    // Backwards in time; others may wait for gradients of inputs while those of weights are made.
    clock.own += (least.input_gradient_seconds + least.weight_gradient_seconds) / speed;
    clock.chain += least.input_gradient_seconds / speed;
    for (const ValueId output : model_.node(call.node).outputs)
      made_[{output, call.part}] = {clock.first, clock.last()};
    add_rest(call, least, clock);
    for (const ValueId output : model_.node(call.node).outputs)
      if (output >= 0) copy(copies_.to_send(output, call.part), call.part);
  }

  void add_rest(const Computation& call, const NodeCost& least, Clock& clock) const {
    const double speed = speed_of(call.part);
    NodeCost most = least;  // of the largest, which comes last
    NodeCost all;           // of the step
    for (const auto& [samples, count] : sizes_) {
      if (samples != sizes_.begin()->first) most = cost_of(call, samples);
      all.forward_seconds += count * most.forward_seconds;
      all.input_gradient_seconds += count * most.input_gradient_seconds;
      all.weight_gradient_seconds += count * most.weight_gradient_seconds;
    }
    clock.rest += (all.forward_seconds - least.forward_seconds) / speed;
    clock.gradients += (all.input_gradient_seconds + all.weight_gradient_seconds) / speed;
    clock.late +=
        (most.input_gradient_seconds + (splits_ ? all : most).weight_gradient_seconds) / speed;
  }

  double speed_of(int part) const {
    return request_.speed.capacities.speed_of(plan_.binding[static_cast<size_t>(part)]);
  }
  double seconds_of(double bytes, int part) const {
    return copy_seconds(request_.speed, bytes) / speed_of(part);
  }
  void copy(const CopiedBytes& bytes, int part) {
    Clock& clock = clocks_[static_cast<size_t>(part)];
    clock.first += seconds_of(bytes.first, part);
    clock.rest += seconds_of(bytes.all - bytes.first, part);
  }

  // A part gets all it reads of a value at once, before the first that reads of it; and whoever
  // made that waits for all it returns.
  void await(ValueId value, const Computation& call) {
    if (value < 0 || model_.value(value).role != Role::kActivation) return;
    if (!had_.insert({value, call.part}).second) return;
    const bool returns = sources_.differentiable(value) && sources_.reaches_loss(call.node);
    Clock& clock = clocks_[static_cast<size_t>(call.part)];
    for (const Source& source : sources_.of_value(value, call.part)) {
      const auto made = made_.find({value, source.part});
      if (made == made_.end()) continue;
      clock.first = std::max(clock.first, made->second.first);
      if (returns) clock.chain = std::max(clock.chain, made->second.last);
    }
    copy(copies_.to_read(value, call.part), call.part);
  }

  // Of what the model is asked for: without a backward pass there is the forward pass alone.
  NodeCost cost_of(const Computation& call, int64_t samples) const {
    NodeCost cost =
        node_cost(model_, call.node, call.iterations, sources_.largest(), samples, request_.speed);
    if (!request_.trains) cost.input_gradient_seconds = cost.weight_gradient_seconds = 0;
    return cost;
  }

  const Sources& sources_;
  const Model& model_;
  const Plan& plan_;
  const PlanRequest& request_;
  const LeastCopies copies_;
  const bool splits_;
  const std::map<int64_t, int> sizes_;            // rows -> micro-batches
  std::vector<Clock> clocks_;                     // by part
  std::map<std::pair<ValueId, int>, Made> made_;  // of a value by a part
  std::set<std::pair<ValueId, int>> had_;         // of a value by a part that reads it
};

}  // namespace

double least_seconds(const Sums& sums, const Plan& plan, const PlanRequest& request, bool splits) {
  return LeastSeconds(sums, plan, request, splits).find();
}

}  // namespace kerf::partitioner
