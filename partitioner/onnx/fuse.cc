#include "partitioner/onnx/fuse.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <span>

#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

struct PatternRow {
  const char* what;  // in notes; null: nobody need know
  Pattern find;
};
constexpr std::array kPatterns{
    PatternRow{"scale and shift of a batch normalisation", scale_and_shift},
    PatternRow{"layer normalisation", layer_normalization},
    PatternRow{"GELU", gelu},
    PatternRow{"attention", attention},
    PatternRow{"linear layer", linear},
};
// Around what those give.
constexpr std::array kSecondPatterns{PatternRow{nullptr, attention_heads}};
// The longest first.
constexpr std::array kAnswerPatterns{
    PatternRow{"convolution with its Relu", conv_and_relu},
    PatternRow{"convolution with its addition", conv_and_sum},
    PatternRow{"convolution with its normalisation", conv_and_norm},
};

// Whether everything but what the last gives is read by these nodes only, and is no result.
bool is_closed(const Model& model, const Fusion& fusion) {
  const std::set<NodeId> nodes(fusion.nodes.begin(), fusion.nodes.end());
  const auto results = model.results();
  for (const NodeId node : fusion.nodes) {
    if (node == fusion.nodes.back()) continue;
    for (const ValueId output : model.node(node).outputs) {
      for (const Use& use : model.uses(output))
        if (!nodes.contains(use.node)) return false;
      for (const Result& result : results)
        if (result.value == output && !model.uses(output).empty()) return false;
    }
  }
  return true;
}

class Fuser {
 public:
  Fuser(const Model& from, std::span<const PatternRow> patterns, std::vector<std::string>& notes)
      : from_(from), to_(from.name()), known_(static_cast<size_t>(from.values()), -1) {
    if (from.has_whole_inputs()) to_.take_whole_inputs();
    for (const PatternRow& row : patterns) {
      const size_t before = by_last_.size();
      for (NodeId id = 0; id < from.nodes(); ++id) find(row, id);
      const auto count = static_cast<int>(by_last_.size() - before);
      if (count > 0 && row.what != nullptr)
        notes.push_back(format("{} put together", plural(count, row.what)));
    }
  }

  bool any() const { return !by_last_.empty(); }
  void freeze() { frozen_ = true; }

  Model made() {
    for (ValueId id = 0; id < from_.values(); ++id) {
      const Value& value = from_.value(id);
      if (value.producer < 0) {
        if (is_read(id)) known(id) = add_copy(value);
      } else if (value.output == 0) {
        add_node(value.producer);
      }
    }
    if (from_.names_results())
      for (const Result& result : from_.results()) to_.add_result(result.name, known(result.value));
    return std::move(to_);
  }

 private:
  ValueId& known(ValueId id) { return known_[static_cast<size_t>(id)]; }

  void find(const PatternRow& row, NodeId id) {
    if (taken_.contains(id)) return;
    auto fusion = row.find(from_, id);
    if (!fusion || !is_closed(from_, *fusion)) return;
    if (std::any_of(fusion->nodes.begin(), fusion->nodes.end(),
                    [&](NodeId node) { return taken_.contains(node); }))
      return;
    taken_.insert(fusion->nodes.begin(), fusion->nodes.end());
    for (size_t i = 0; i < fusion->inputs.size(); ++i)
      if (made_of(*fusion, i) == nullptr) read_.insert(fusion->inputs[i]);
    by_last_.emplace(id, std::move(*fusion));
  }

  // Whether a node that stays, or one that stands for others, reads it.
  bool is_read(ValueId id) const {
    if (from_.uses(id).empty()) return true;
    for (const Use& use : from_.uses(id))
      if (!taken_.contains(use.node)) return true;
    return read_.contains(id);
  }

  static const Fusion::Made* made_of(const Fusion& fusion, size_t input) {
    const bool made = input < fusion.made.size() && fusion.made[input];
    return made ? &*fusion.made[input] : nullptr;
  }

  ValueId add_copy(Value value) {
    if (frozen_ && value.role == Role::kParameter) value.role = Role::kFrozen;
    return to_.add_copy(value);
  }

  ValueId make(const Fusion::Made& made) {
    if (made.role == Role::kConstant) {
      const ValueId there = to_.find_value(made.name);  // of another node, made of the same
      return there >= 0
                 ? there
                 : to_.add_constant(made.name, {made.spec.dtype, made.spec.shape, made.bytes});
    }
    const ValueId id = to_.add_parameter(made.name, made.spec, {}, made.role);
    to_.set_contents(id, contents_of(made.bytes, made.spec.dtype));
    return id;
  }

  // A name that no node has.
  std::string free_name(std::string name) const {
    while (from_.find_node(name) >= 0 || to_.find_node(name) >= 0) name += '_';
    return name;
  }

  ValueId add_step(const std::string& name, const Fusion::Step& step, ValueId input, uint32_t key) {
    const NodeId id = to_.add_node(name, step.op, step.attributes, {input});
    to_.set_key(id, key);
    return to_.node(id).outputs[0];
  }

  ValueId input_of(const Fusion& fusion, size_t input, const Node& last) {
    const Fusion::Made* made = made_of(fusion, input);
    const ValueId id = fusion.inputs[input];
    ValueId value = made != nullptr ? make(*made) : id < 0 ? -1 : known(id);
    const auto before = fusion.before.find(input);
    if (before == fusion.before.end()) return value;
    for (const Fusion::Step& step : before->second)
      value =
          add_step(free_name(format("{}.{}{}", last.name, step.op, input)), step, value, last.key);
    return value;
  }

  void add_fused(const Fusion& fusion, const Node& last) {
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < fusion.inputs.size(); ++i) inputs.push_back(input_of(fusion, i, last));
    const bool is_last = fusion.after.empty();
    const NodeId made =
        to_.add_node(is_last ? last.name : free_name(format("{}.{}", last.name, fusion.op)),
                     fusion.op, fusion.attributes, inputs);
    to_.set_key(made, last.key);
    ValueId value = to_.node(made).outputs[0];
    for (size_t i = 0; i < fusion.after.size(); ++i) {
      const Fusion::Step& step = fusion.after[i];
      const bool ends = i + 1 == fusion.after.size();
      value = add_step(ends ? last.name : free_name(format("{}.{}", last.name, step.op)), step,
                       value, last.key);
    }
    known(last.outputs[0]) = value;
  }

  void add_node(NodeId id) {
    const Node& node = from_.node(id);
    const auto fusion = by_last_.find(id);
    if (fusion != by_last_.end()) return add_fused(fusion->second, node);
    if (taken_.contains(id)) return;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input < 0 ? -1 : known(input));
    const NodeId made = to_.add_node(node.name, node.op, node.attributes, inputs,
                                     static_cast<int>(node.outputs.size()));
    to_.set_key(made, node.key);
    const auto& outputs = to_.node(made).outputs;
    for (size_t i = 0; i < std::min(outputs.size(), node.outputs.size()); ++i)
      known(node.outputs[i]) = outputs[i];
  }

  const Model& from_;
  Model to_;
  std::vector<ValueId> known_;  // by value of `from_`
  std::map<NodeId, Fusion> by_last_;
  std::set<NodeId> taken_;
  std::set<ValueId> read_;  // by what stands for the taken ones
  bool frozen_ = false;
};

}  // namespace

Model fused(const Model& model, std::vector<std::string>& notes) {
  Model made = model;
  for (const std::span<const PatternRow> patterns :
       {std::span<const PatternRow>(kPatterns), std::span<const PatternRow>(kSecondPatterns)}) {
    Fuser fuser(made, patterns, notes);
    if (fuser.any()) made = fuser.made();
  }
  return made;
}

Model fused_for_answers(const Model& model) {
  std::vector<std::string> notes;  // for who reads the model only: its answers are the same
  Fuser fuser(model, kAnswerPatterns, notes);
  if (!fuser.any()) return model;
  fuser.freeze();
  return fuser.made();
}

NodeId maker(const Model& model, ValueId value, const std::string& op) {
  const NodeId producer = value < 0 ? -1 : model.value(value).producer;
  return producer >= 0 && model.node(producer).op == op ? producer : -1;
}

NodeId only_maker(const Model& model, ValueId value, const std::string& op) {
  const NodeId producer = maker(model, value, op);
  return producer >= 0 && model.uses(value).size() == 1 ? producer : -1;
}

std::optional<std::vector<float>> numbers_in(const Value& value, size_t most) {
  const auto count =
      static_cast<size_t>(value.spec.shape.batched() ? 0 : value.spec.shape.elements());
  if (!ops::is_kept(value.role) || value.spec.dtype != ops::DType::kFloat32 || count == 0 ||
      count > most)
    return std::nullopt;
  std::vector<float> numbers(count);
  const auto bytes = std::as_writable_bytes(std::span(numbers));
  using Kind = ops::Initializer::Kind;
  if (value.literal != nullptr)
    std::memcpy(numbers.data(), value.literal->bytes.data(), bytes.size());
  else if (value.contents != nullptr)
    value.contents->read(0, bytes);
  else if (value.initializer.kind == Kind::kConstant)
    std::fill(numbers.begin(), numbers.end(), static_cast<float>(value.initializer.scale));
  else
    return std::nullopt;
  return numbers;
}

std::optional<double> one_number(const Model& model, ValueId value) {
  if (value < 0 || model.value(value).role == Role::kParameter) return std::nullopt;
  const auto numbers = numbers_in(model.value(value));
  if (!numbers || numbers->size() != 1) return std::nullopt;
  return static_cast<double>(numbers->front());
}

ValueId other_input(const Node& node, ValueId one) {
  if (node.inputs.size() != 2) return -1;
  return node.inputs[0] == one ? node.inputs[1] : node.inputs[0];
}

std::vector<int64_t> reshaped_to(const ops::Shape& shape) {
  std::vector<int64_t> extents;
  for (const int64_t extent : shape) extents.push_back(extent < 0 ? -1 : extent);
  return extents;
}

}  // namespace kerf::partitioner::onnx
