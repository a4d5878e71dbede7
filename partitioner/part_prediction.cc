#include "partitioner/part_prediction.h"

#include <algorithm>
#include <map>

#include "partitioner/cut.h"
#include "partitioner/replicas.h"
#include "partitioner/stage_graph.h"

namespace kerf::partitioner {

namespace {

class Predictions {
 public:
  Predictions(const Model& model, const Plan& plan, const PlanRequest& request,
              const InFlight& in_flight)
      : model_(model),
        plan_(plan),
        request_(request),
        flights_(in_flight.of(pipeline_of(model, plan), plan.micro_batches)),
        result_(plan.binding.size()) {}

  void add_work() {
    std::vector<std::map<int64_t, int>> sizes_of;  // by replica
    for (int replica = 0; replica < plan_.replicas(); ++replica)
      sizes_of.push_back(sizes_of_replica(plan_, plan_.batch, replica));
    const int64_t largest = plan_.largest_micro_batch();
    const std::vector<int> stages = stages_of_parts(plan_);
    for (const Computation& c : computations(model_, plan_.division)) {
      PartPrediction& part = of(c.part);
      const double speed =
          request_.speed.capacities.speed_of(plan_.binding[static_cast<size_t>(c.part)]);
      const int stage = stages[static_cast<size_t>(c.part)];
      const double forwards = request_.trains && stage >= 0 ? forwards_in(c.part, stage) : 1;
      ++part.operators;
      for (const auto& [samples, count] :
           sizes_of[static_cast<size_t>(plan_.division.replica_of(c.part))]) {
        const NodeCost cost =
            node_cost(model_, c.node, c.iterations, largest, samples, request_.speed);
        part.forward_flops += count * cost.work.forward_flops;
        part.seconds += count *
                        (forwards * cost.forward_seconds +
                         (request_.trains ? cost.total_seconds() - cost.forward_seconds : 0)) /
                        speed;
      }
    }
  }

  void add_weights() {
    for (const ValueId id : model_.parameters()) {
      const ops::ValueSpec& spec = model_.value(id).spec;
      for (const ops::Share& share : plan_.layouts[static_cast<size_t>(id)].shares) {
        const ops::ValueSpec local{spec.dtype, ops::local_shape(share.box, spec.shape)};
        of(share.part).weight_bytes += static_cast<int64_t>(local.bytes(0));
      }
    }
  }

  void add_activations(const std::vector<Part>& parts) {
    for (const Part& lowered : parts) {
      PartPrediction& part = of(lowered.part);
      part.stage = lowered.stage;
      part.worker = lowered.worker;
      const Flight& flight = flights_[group_of(plan_, lowered.part, lowered.stage)];
      part.activation_bytes = flight.kept * lowered.kept_bytes +
                              flight.kept_for_weights * lowered.kept_for_weights_bytes +
                              flight.handed * lowered.bytes_of(RegionKind::kHanded) +
                              flight.entered * lowered.bytes_of(RegionKind::kEntered);
    }
  }

  void add_traffic() {
    const std::vector<Traffic> traffic =
        predict_traffic(model_, plan_, plan_.batch, request_.trains);
    for (size_t r = 0; r < plan_.routes.size(); ++r) {
      const Route& route = plan_.routes[r];
      if (is_local(plan_, route)) continue;
      of(route.from).messages += traffic[r].messages;
      of(route.from).bytes_out += traffic[r].bytes;
      of(route.to).bytes_in += traffic[r].bytes;
    }
  }

  std::vector<PartPrediction> take() { return std::move(result_); }

 private:
  // Of a micro-batch, on average: whatever is forgotten is made again.
  double forwards_in(int part, int stage) const {
    const int own = micro_batches_of(plan_, plan_.division.replica_of(part));
    return 1 + static_cast<double>(flights_[group_of(plan_, part, stage)].recomputed) /
                   std::max(1, own);
  }

  PartPrediction& of(int part) { return result_[static_cast<size_t>(part)]; }

  const Model& model_;
  const Plan& plan_;
  const PlanRequest& request_;
  const std::vector<Flight> flights_;  // by group
  std::vector<PartPrediction> result_;
};

}  // namespace

std::vector<PartPrediction> predict_parts(const Model& model, const Plan& plan,
                                          const std::vector<Part>& parts,
                                          const PlanRequest& request, const InFlight& in_flight) {
  Predictions predictions(model, plan, request, in_flight);
  predictions.add_work();
  predictions.add_weights();
  predictions.add_activations(parts);
  predictions.add_traffic();
  return predictions.take();
}

}  // namespace kerf::partitioner
