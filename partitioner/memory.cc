#include "partitioner/memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ops/kernel.h"

namespace kerf::partitioner {

namespace {

// Walks F and I of one micro-batch through the locals of a stage. A value that is made here has a
// local of the box that is held; a value read here that the held box does not cover has another, of
// the hull of all that is read. Each has a number; an alias has the number of what it shares.
class Walk {
 public:
  Walk(const Model& model, const std::vector<const Computation*>& mine, int64_t samples)
      : model_(model), mine_(mine), samples_(samples) {
    find_locals();
    find_kept();
  }

  StageMemory measure() {
    StageMemory result;
    for (const auto& [value, box] : parameters_) {
      const int64_t bytes = size(value, box);
      result.weights += bytes;
      if (model_.needs_gradient(value)) result.trained += bytes;
    }
    for (const int local : kept_) result.kept += bytes_[index(local)];
    result.kept += saved_;
    result.transient = std::max(forward_peak(), gradient_peak()) + workspace();
    for (const auto& [value, local] : read_)
      if (!made_.contains(value) && kept_.contains(local)) result.kept_arrivals.push_back(value);
    return result;
  }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }

  int64_t size(ValueId value, const ops::Box& box) const {
    const ops::ValueSpec& spec = model_.value(value).spec;
    const int64_t elements = ops::local_shape(box, spec.shape, samples_).elements();
    return whole_blocks(elements * static_cast<int64_t>(ops::size_of(spec.dtype)));
  }

  int add_local(ValueId value, const ops::Box& box) {
    bytes_.push_back(size(value, box));
    return static_cast<int>(bytes_.size()) - 1;
  }

  void find_locals() {
    std::map<ValueId, ops::Box> needed;
    for (size_t t = 0; t < mine_.size(); ++t) {
      const Computation* c = mine_[t];
      const Node& node = model_.node(c->node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] < 0 || c->inputs[i].empty()) continue;
        first_reader_.emplace(node.inputs[i], t);
        auto [at, is_new] = needed.emplace(node.inputs[i], c->inputs[i]);
        if (!is_new) at->second = ops::hull(at->second, c->inputs[i]);
      }
    }
    for (const Computation* c : mine_) {
      const Node& node = model_.node(c->node);
      for (const ValueId value : node.inputs)
        if (const auto need = needed.find(value); need != needed.end())
          add_read(value, need->second);
      const bool shares = model_.op(c->node).aliases();
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const ValueId value = node.outputs[i];
        const ops::Box& box = c->outputs[i];
        made_[value] = shares && i == 0 ? read_.at(node.inputs[0]) : add_local(value, box);
        made_boxes_.emplace(value, box);
      }
    }
  }

  void add_read(ValueId value, const ops::Box& needed) {
    if (read_.contains(value)) return;
    const ops::Shape shape = model_.value(value).spec.shape.with_batch(samples_);
    if (ops::is_kept(model_.value(value).role)) {
      parameters_.emplace(value, needed);
      return;
    }
    const auto made = made_boxes_.find(value);
    const bool covered =
        made != made_boxes_.end() &&
        ops::normalized(made->second, shape).contains(ops::normalized(needed, shape));
    read_[value] = covered ? made_.at(value) : add_local(value, needed);
  }

  void find_kept() {
    for (const Computation* c : mine_) {
      const Node& node = model_.node(c->node);
      if (!model_.needs_gradient(node.outputs[0])) continue;
      const ops::BackwardReads reads = model_.op(c->node).backward_reads();
      for (const auto* inputs :
           {&reads.inputs_for_input_gradient, &reads.inputs_for_weight_gradient})
        for (const int i : *inputs) keep(read_, node.inputs[index(i)]);
      for (const auto* outputs :
           {&reads.outputs_for_input_gradient, &reads.outputs_for_weight_gradient})
        for (const int i : *outputs) keep(made_, node.outputs[index(i)]);
      saved_ += reserve_bytes(*c);
    }
  }

  void keep(const std::map<ValueId, int>& locals, ValueId value) {
    const auto at = locals.find(value);  // a parameter has none
    if (at != locals.end()) kept_.insert(at->second);
  }

  int64_t reserve_bytes(const Computation& c) const {
    const ops::BoundOperator& op = model_.op(c.node);
    const ops::LocalSpecs local = ops::local_specs(op, c.iterations, samples_, samples_);
    return whole_blocks(static_cast<int64_t>(op.reserve_bytes(local) + op.handed_bytes(local)));
  }

  // One kernel or one copy runs at a time. A copy, from the local that a value was made in to the
  // one that it is read from, packs what it copies.
  int64_t workspace() const {
    int64_t most = 0;
    for (const Computation* c : mine_) most = std::max(most, whole_blocks(c->workspace));
    for (const auto& [value, made] : made_)
      if (const auto at = read_.find(value); at != read_.end() && at->second != made)
        most = std::max(most, std::min(bytes_[index(made)], bytes_[index(at->second)]));
    return most;
  }

  int64_t forward_peak() const {
    std::map<int, size_t> last;  // local -> the last computation that touches it
    for (size_t t = 0; t < mine_.size(); ++t)
      for (const int local : touched(*mine_[t])) last[local] = t;
    std::set<int> live;
    int64_t bytes = 0;
    int64_t peak = 0;
    for (size_t t = 0; t < mine_.size(); ++t) {
      for (const int local : touched(*mine_[t]))
        if (!kept_.contains(local) && live.insert(local).second) bytes += bytes_[index(local)];
      peak = std::max(peak, bytes);
      for (const int local : touched(*mine_[t]))
        if (last.at(local) == t && live.erase(local) > 0) bytes -= bytes_[index(local)];
    }
    return peak;
  }

  std::vector<int> touched(const Computation& c) const {
    std::vector<int> result;
    const Node& node = model_.node(c.node);
    for (const ValueId value : node.inputs)
      if (const auto at = read_.find(value); at != read_.end()) result.push_back(at->second);
    for (const ValueId value : node.outputs) {
      result.push_back(made_.at(value));
      // What is held and what is gathered of one value are there together while it is gathered.
      if (const auto at = read_.find(value); at != read_.end()) result.push_back(at->second);
    }
    return result;
  }

  // Gradients mirror the locals of values that have one. Those of a node with parameters stay until
  // its W; all others go once the node (or, for arrivals, the first reader) has done its I.
  int64_t gradient_peak() const {
    std::set<int> live;
    int64_t bytes = 0;
    int64_t peak = 0;
    const auto hold = [&](const std::map<ValueId, int>& locals, ValueId value) {
      const auto at = locals.find(value);
      if (value < 0 || at == locals.end() || !model_.needs_gradient(value)) return;
      if (live.insert(at->second).second) bytes += bytes_[index(at->second)];
    };
    for (size_t t = mine_.size(); t-- > 0;) {
      const Node& node = model_.node(mine_[t]->node);
      hold(read_, node.outputs[0]);
      hold(made_, node.outputs[0]);
      for (const ValueId value : node.inputs) hold(read_, value);
      peak = std::max(peak, bytes);
      for (const int local : finished(t))
        if (live.erase(local) > 0) bytes -= bytes_[index(local)];
    }
    return peak;
  }

  // Gradient locals that nothing reads after the I of computation t.
  std::vector<int> finished(size_t t) const {
    std::vector<int> result;
    const Node& node = model_.node(mine_[t]->node);
    const auto has_weights = [&](ValueId v) {
      return v >= 0 && model_.value(v).role == Role::kParameter && model_.needs_gradient(v);
    };
    const bool waits_for_w = std::any_of(node.inputs.begin(), node.inputs.end(), has_weights);
    const bool shares = model_.op(mine_[t]->node).aliases();
    if (!waits_for_w && !shares) result.push_back(made_.at(node.outputs[0]));
    for (const ValueId value : node.inputs) {
      const auto at = read_.find(value);
      if (at == read_.end() || made_.contains(value)) continue;
      if (first_reader_.at(value) == t) result.push_back(at->second);
    }
    return result;
  }

  const Model& model_;
  const std::vector<const Computation*>& mine_;
  int64_t samples_;
  std::vector<int64_t> bytes_;   // by local
  std::map<ValueId, int> made_;  // local of a value computed here
  std::map<ValueId, ops::Box> made_boxes_;
  std::map<ValueId, int> read_;  // local that a value is read from here
  std::map<ValueId, ops::Box> parameters_;
  std::map<ValueId, size_t> first_reader_;  // place in mine_
  std::set<int> kept_;
  int64_t saved_ = 0;
};

}  // namespace

void measure_workspace(const Model& model, std::vector<Computation>& computations, int64_t samples,
                       int threads) {
  for (Computation& c : computations) {
    const ops::BoundOperator& op = model.op(c.node);
    size_t bytes =
        ops::workspace_bytes(op, runtime::DeviceKind::kCpu,
                             ops::local_specs(op, c.iterations, samples, samples), threads);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (model.node(c.node).inputs[i] < 0) continue;
      const Value& value = model.value(model.node(c.node).inputs[i]);
      const bool data = value.role == Role::kInput || value.role == Role::kLabel;
      if (data && !c.inputs[i].is_whole()) bytes = std::max(bytes, value.spec.bytes(1));
    }
    c.workspace = static_cast<int64_t>(bytes);
  }
}

StageMemory stage_memory(const Model& model, const std::vector<const Computation*>& mine,
                         int64_t samples) {
  return Walk(model, mine, samples).measure();
}

std::vector<Computation> whole_computations(const Model& model) {
  Division division;
  for (NodeId id = 0; id < model.nodes(); ++id)
    division.nodes.push_back(whole_division(model, id, 0));
  return computations(model, division);
}

}  // namespace kerf::partitioner
