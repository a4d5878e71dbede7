#include "partitioner/part_prediction.h"

#include <map>

#include "partitioner/cut.h"
#include "partitioner/stage_graph.h"

namespace kerf::partitioner {

namespace {

class Predictions {
 public:
  Predictions(const Model& model, const Plan& plan, const PlanRequest& request)
      : model_(model), plan_(plan), request_(request), result_(plan.binding.size()) {}

  void add_work() {
    const std::map<int64_t, int> sizes = counted_sizes(plan_.batch, plan_.micro_batches);
    const int64_t largest = plan_.largest_micro_batch();
    for (const Computation& c : computations(model_, plan_.division)) {
      PartPrediction& part = of(c.part);
      const double speed =
          request_.speed.capacities.speed_of(plan_.binding[static_cast<size_t>(c.part)]);
      ++part.operators;
      for (const auto& [samples, count] : sizes) {
        const NodeCost cost =
            node_cost(model_, c.node, c.iterations, largest, samples, request_.speed);
        part.forward_flops += count * cost.work.forward_flops;
        part.seconds +=
            count * (request_.trains ? cost.total_seconds() : cost.forward_seconds) / speed;
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

  void add_activations(const std::vector<Part>& parts, const InFlight& in_flight) {
    const std::vector<Flight> flights =
        in_flight.of(pipeline_of(model_, plan_), plan_.micro_batches);
    for (const Part& lowered : parts) {
      PartPrediction& part = of(lowered.part);
      part.stage = lowered.stage;
      part.worker = lowered.worker;
      const Flight& flight = flights[static_cast<size_t>(lowered.stage)];
      part.activation_bytes =
          flight.kept * lowered.kept_bytes + flight.handed * lowered.bytes_of(RegionKind::kHanded);
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
  PartPrediction& of(int part) { return result_[static_cast<size_t>(part)]; }

  const Model& model_;
  const Plan& plan_;
  const PlanRequest& request_;
  std::vector<PartPrediction> result_;
};

}  // namespace

std::vector<PartPrediction> predict_parts(const Model& model, const Plan& plan,
                                          const std::vector<Part>& parts,
                                          const PlanRequest& request, const InFlight& in_flight) {
  Predictions predictions(model, plan, request);
  predictions.add_work();
  predictions.add_weights();
  predictions.add_activations(parts, in_flight);
  predictions.add_traffic();
  return predictions.take();
}

}  // namespace kerf::partitioner
