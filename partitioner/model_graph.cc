#include "partitioner/model_graph.h"

#include <algorithm>
#include <map>

#include "partitioner/at.h"
#include "partitioner/blocks.h"
#include "partitioner/gradients.h"
#include "partitioner/kept_values.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

class Figures {
 public:
  Figures(const Model& model, const PlanRequest& request)
      : model_(model),
        request_(request),
        gradients_(model, request.trains),
        speeds_(request.speed.capacities.distinct_speeds()) {}

  CostFigures make() {
    result_.name = model_.name();
    result_.unit = request_.minimise == Minimise::kTime ? "s" : "FLOP";
    result_.work.resize(speeds_.size());
    for (NodeId node = 0; node < model_.nodes(); ++node) add_node(node);
    for (ValueId value = 0; value < model_.values(); ++value)
      if (model_.value(value).producer >= 0) add_value(value);
    add_held();
    add_colours();
    add_close();
    return std::move(result_);
  }

 private:
  void add_node(NodeId node) {
    result_.nodes.push_back({model_.node(node).name, -1, false});
    const Work work =
        node_work(model_, request_, node, whole_division(model_, node, 0).shares[0].box);
    for (size_t type = 0; type < speeds_.size(); ++type)
      result_.work[type].push_back({work.forward / speeds_[type], work.backward / speeds_[type]});
  }

  void add_value(ValueId value) {
    CostValue cost;
    cost.producer = model_.value(value).producer;
    for (const Use& use : model_.uses(value)) cost.readers.push_back(use.node);
    cost.readers = distinct(std::move(cost.readers));
    cost.forward_bytes = static_cast<double>(model_.value(value).spec.bytes(request_.batch));
    cost.bytes = cost.forward_bytes;
    cost.enter = wire_price(request_, cost.forward_bytes, request_.micro_batches);
    if (gradients_.of(value)) add_gradient(value, cost);
    result_.values.push_back(std::move(cost));
  }

  // Of readers that lead to no loss no gradient comes back: where there are any, the gradient is a
  // value by itself, that the others alone send.
  void add_gradient(ValueId value, CostValue& cost) {
    CostValue gradient;
    gradient.producer = cost.producer;
    for (const Use& use : model_.uses(value))
      if (gradients_.returned_by(use)) gradient.returns.push_back(use.node);
    gradient.readers = distinct(gradient.returns);
    gradient.returned_bytes = gradient.bytes = cost.forward_bytes;
    gradient.enter = wire_price(request_, cost.forward_bytes, request_.micro_batches);
    gradient.returning = wire_price(request_, cost.forward_bytes, 0);  // in the same messages
    if (gradient.readers != cost.readers) {
      result_.values.push_back(std::move(gradient));
      return;
    }
    cost.bytes += gradient.bytes;
    cost.enter += gradient.enter;
    cost.returned_bytes = gradient.returned_bytes;
    cost.returning = gradient.returning;
    cost.returns = std::move(gradient.returns);
  }

  static std::vector<int> distinct(std::vector<int> nodes) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  void add_held() {
    const int64_t samples = request_.largest_micro_batch();
    std::map<ValueId, Held> values;
    for (NodeId node = 0; node < model_.nodes(); ++node) {
      if (!gradients_.through(node)) continue;
      for (const ValueId value : kept_by(model_, node)) {
        Held& held = values[value];
        held.per_micro_batch = blocks(model_.value(value).spec.bytes(samples));
        held.nodes.push_back(node);
      }
      if (const double bytes = saved_by(node, samples); bytes > 0)
        result_.held.push_back({{node}, 0, bytes});
    }
    for (auto& [value, held] : values) result_.held.push_back(std::move(held));
    add_parameters();
  }

  static double blocks(size_t bytes) {
    return static_cast<double>(whole_blocks(static_cast<int64_t>(bytes)));
  }

  // Bytes that go from its forward to its gradients, and from its I to its W.
  double saved_by(NodeId id, int64_t samples) const {
    const ops::BoundOperator& op = model_.op(id);
    const ops::LocalSpecs local =
        ops::local_specs(op, whole_division(model_, id, 0).shares[0].box, samples, samples);
    return blocks(op.reserve_bytes(local) + op.handed_bytes(local));
  }

  // Gradients live for the whole step where several micro-batches add to them. In a step of one
  // they come as activations go, so that this says more than it takes; what it takes is no sum over
  // nodes. A cap is held against what a division is predicted to take (CutTask::peaks), and limits
  // are tightened by the difference; --front alone leaves out what would fit for that reason only.
  void add_parameters() {
    for (const ValueId id : model_.kept_values()) {
      const int copies = gradients_.of(id) ? 2 + request_.setting.optimizer_states : 1;
      result_.held.push_back({{}, copies * blocks(model_.value(id).spec.bytes(0)), 0});
      for (const Use& use : model_.uses(id)) result_.held.back().nodes.push_back(use.node);
    }
  }

  // Users of one parameter, and of parameters that share a user; what a person wants together.
  void add_colours() {
    Edges together = nodes_together(model_, request_.steering);
    for (const ValueId id : model_.kept_values())
      for (const Use& use : model_.uses(id)) {
        together.emplace_back(model_.uses(id)[0].node, use.node);
        together.emplace_back(use.node, model_.uses(id)[0].node);
      }
    const std::vector<int> component = strong_components(model_.nodes(), together);
    std::vector<int> count(component.size());
    for (const int c : component) ++count[at(c)];
    for (NodeId node = 0; node < model_.nodes(); ++node)
      if (const int c = component[at(node)]; count[at(c)] > 1) result_.nodes[at(node)].colour = c;
  }

  // The loss and its scores: few bytes, but a worker for the loss alone would only wait.
  void add_close() {
    const NodeId loss = model_.loss();
    if (loss < 0) return;
    const NodeId scorer = model_.value(model_.node(loss).inputs[0]).producer;
    if (scorer >= 0) result_.close.emplace_back(scorer, loss);
  }

  const Model& model_;
  const PlanRequest& request_;
  const Gradients gradients_;
  const std::vector<double> speeds_;  // a type of device each
  CostFigures result_;
};

}  // namespace

CostGraph cost_graph_of(const Model& model, const PlanRequest& request) {
  return CostGraph(Figures(model, request).make());
}

}  // namespace kerf::partitioner
