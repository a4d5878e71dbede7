#include "partitioner/cuts/least_seconds.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "partitioner/copies.h"
#include "partitioner/cuts/least_copies.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

class LeastSeconds {
 public:
  LeastSeconds(const Sums& sums, const Plan& plan, const PlanRequest& request)
      : sources_(sums.sources()),
        model_(sources_.model()),
        plan_(plan),
        request_(request),
        copies_(sums, plan, request.trains),
        samples_(counted_sizes(plan.batch, plan.micro_batches).begin()->first),
        now_(plan.binding.size()),
        rest_(plan.binding.size()) {
    request_.minimise = Minimise::kTime;
  }

  double find() {
    NodeWorks works(model_, request_);
    for (const Computation& call : sources_.computations()) add(call, works);
    for (size_t part = 0; part < rest_.size(); ++part) {
      const int number = static_cast<int>(part);
      rest_[part] += seconds_of(copies_.afterwards(number), number);
    }
    double most = 0;
    for (size_t part = 0; part < now_.size(); ++part)
      most = std::max(most, now_[part] + rest_[part]);
    return most * (1 - kRounding);
  }

 private:
  // The simulation adds the same seconds in another order.
  static constexpr double kRounding = 1e-9;

  void add(const Computation& call, NodeWorks& works) {
    const auto part = static_cast<size_t>(call.part);
    const double speed = speed_of(call.part);
    for (const ValueId input : model_.node(call.node).inputs) await(input, call.part);
    const double forward =
        node_cost(model_, call.node, call.iterations, sources_.largest(), samples_, request_.speed)
            .forward_seconds;
    now_[part] += forward / speed;
    rest_[part] += (works.total(call.node, call.iterations) - forward) / speed;
    for (const ValueId output : model_.node(call.node).outputs)
      made_[{output, call.part}] = now_[part];
    for (const ValueId output : model_.node(call.node).outputs)
      if (output >= 0) copy(copies_.to_send(output, call.part), call.part);
  }

  double speed_of(int part) const {
    return request_.speed.capacities.speed_of(plan_.binding[static_cast<size_t>(part)]);
  }
  double seconds_of(double bytes, int part) const {
    return copy_seconds(request_.speed, bytes) / speed_of(part);
  }
  void copy(const CopiedBytes& bytes, int part) {
    now_[static_cast<size_t>(part)] += seconds_of(bytes.first, part);
    rest_[static_cast<size_t>(part)] += seconds_of(bytes.all - bytes.first, part);
  }

  // A part gets all it reads of a value at once, before the first that reads of it.
  void await(ValueId value, int part) {
    if (value < 0 || model_.value(value).role != Role::kActivation) return;
    if (!had_.insert({value, part}).second) return;
    double& now = now_[static_cast<size_t>(part)];
    for (const Source& source : sources_.of_value(value, part))
      if (const auto made = made_.find({value, source.part}); made != made_.end())
        now = std::max(now, made->second);
    copy(copies_.to_read(value, part), part);
  }

  const Sources& sources_;
  const Model& model_;
  const Plan& plan_;
  PlanRequest request_;
  const LeastCopies copies_;
  const int64_t samples_;     // of the smallest micro-batch
  std::vector<double> now_;   // by part: its first forward pass, as far as it is gone through
  std::vector<double> rest_;  // by part: what it computes besides
  std::map<std::pair<ValueId, int>, double> made_;  // when, of a value by a part
  std::set<std::pair<ValueId, int>> had_;           // of a value by a part that reads it
};

}  // namespace

double least_seconds(const Sums& sums, const Plan& plan, const PlanRequest& request) {
  return LeastSeconds(sums, plan, request).find();
}

}  // namespace kerf::partitioner
