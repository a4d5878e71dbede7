#include "partitioner/model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/fingerprint.h"

namespace kerf::partitioner {

namespace {

std::string spec_text(const ops::ValueSpec& spec) {
  return format("{} {}", ops::to_string(spec.dtype), ops::to_string(spec.shape));
}

std::string literal_text(const ops::TensorLiteral& literal) {
  runtime::Fingerprint hash;
  hash.add(literal.bytes);
  return format("T{} {}", spec_text({literal.dtype, literal.shape}), hash.hex());
}

struct AttributeText {
  std::string operator()(int64_t value) const { return format("i{}", value); }
  std::string operator()(double value) const { return format("f{}", value); }
  std::string operator()(const std::string& value) const { return format("s{}", value); }
  std::string operator()(const std::vector<int64_t>& value) const {
    return format("I{}", fmt::join(value, ","));
  }
  std::string operator()(const std::vector<double>& value) const {
    return format("F{}", fmt::join(value, ","));
  }
  std::string operator()(const std::vector<std::string>& value) const {
    return format("S{}", fmt::join(value, ","));
  }
  std::string operator()(const ops::TensorLiteral& value) const { return literal_text(value); }
};

}  // namespace

void Model::fail(const std::string& what, const std::string& reason) const {
  throw Error(ErrorCode::kUsage, reason, what.empty() ? name_ : format("{}: {}", name_, what));
}

ValueId Model::add_value(Value value, bool trained) {
  if (value.name.empty()) fail("value", "has an empty name");
  const auto id = static_cast<ValueId>(values_.size());
  if (!value_names_.emplace(value.name, id).second)
    fail(format("value {}", value.name), "another value has this name; names are unique");
  values_.push_back(std::move(value));
  uses_.emplace_back();
  trained_.push_back(trained);
  return id;
}

void Model::check_fed(const std::string& what, const ops::Shape& shape) const {
  try {
    (void)shape.elements_per_sample();
  } catch (const Error& error) {
    fail(what, error.message());
  }
  if (whole_inputs_) return;
  if (shape.rank() == 0 || shape[0] != ops::kBatch)
    fail(what, format("its shape is {}, but axis 0 must be the batch, a row a sample",
                      ops::to_string(shape)));
  for (int axis = 1; axis < shape.rank(); ++axis)
    if (shape[axis] < 1)
      fail(what, format("its shape is {}, but every extent after the batch must be at least 1",
                        ops::to_string(shape)));
}

ValueId Model::add_input(const std::string& name, const ops::ValueSpec& spec) {
  check_fed(format("input {}", name), spec.shape);
  return add_value({name, spec, Role::kInput}, false);
}

ValueId Model::add_label(const std::string& name, const ops::ValueSpec& spec) {
  check_fed(format("label {}", name), spec.shape);
  return add_value({name, spec, Role::kLabel}, false);
}

ValueId Model::add_parameter(const std::string& name, const ops::ValueSpec& spec,
                             const ops::Initializer& initializer, Role role) {
  const std::string what = format("{} {}", ops::to_string(role), name);
  KERF_CHECK(ops::is_kept(role) && role != Role::kConstant, "{} is no parameter", what);
  if (spec.shape.batched()) fail(what, "a parameter has no row per sample; its shape is fixed");
  for (const int64_t extent : spec.shape)
    if (extent < 1)
      fail(what, format("its shape is {}, but every extent must be at least 1",
                        ops::to_string(spec.shape)));
  Value value{name, spec, role};
  value.initializer = initializer;
  value.parameter = parameters_++;
  return add_value(std::move(value), role == Role::kParameter && ops::is_floating(spec.dtype));
}

ValueId Model::add_constant(const std::string& name, ops::TensorLiteral literal) {
  const ops::ValueSpec spec{literal.dtype, literal.shape};
  if (spec.shape.batched() || literal.bytes.size() != spec.bytes(0))
    fail(format("constant {}", name),
         format("has {} bytes for a tensor {}", literal.bytes.size(), ops::to_string(spec.shape)));
  Value value{name, spec, Role::kConstant};
  value.parameter = parameters_++;
  value.literal = std::make_shared<const ops::TensorLiteral>(std::move(literal));
  return add_value(std::move(value), false);
}

void Model::set_contents(ValueId id, std::shared_ptr<const Contents> contents, bool derived) {
  Value& value = values_[static_cast<size_t>(id)];
  KERF_CHECK(ops::is_kept(value.role) && value.literal == nullptr, "{} is no parameter",
             value.name);
  KERF_CHECK(!derived || contents != nullptr, "{} is derived of nothing", value.name);
  value.contents = std::move(contents);
  value.derived = derived;
}

void Model::set_stored(ValueId id, std::shared_ptr<const StoredForm> form) {
  Value& value = values_[static_cast<size_t>(id)];
  KERF_CHECK(ops::is_kept(value.role) && value.literal == nullptr, "{} is no parameter",
             value.name);
  value.stored = std::move(form);
}

ValueId Model::add_copy(const Value& value) {
  switch (value.role) {
    case Role::kInput:
      return add_input(value.name, value.spec);
    case Role::kLabel:
      return add_label(value.name, value.spec);
    case Role::kConstant:
      return add_constant(value.name, *value.literal);
    default:
      const ValueId id = add_parameter(value.name, value.spec, value.initializer, value.role);
      set_contents(id, value.contents, value.derived);
      set_stored(id, value.stored);
      return id;
  }
}

ops::NodeFacts Model::facts_of(const std::string& where, const ops::Attributes& attributes,
                               const std::vector<ValueId>& inputs, int outputs) const {
  ops::NodeFacts facts{attributes, {}, outputs};
  for (const ValueId input : inputs) {
    if (input < -1 || input >= values()) fail(where, format("there is no value number {}", input));
    ops::Operand& operand = facts.inputs.emplace_back();
    operand.present = input >= 0;
    if (input < 0) continue;
    operand.spec = value(input).spec;
    operand.role = value(input).role;
    operand.wants_gradient = needs_gradient(input);
  }
  return facts;
}

NodeId Model::add_node(const std::string& name, const std::string& op,
                       const ops::Attributes& attributes, const std::vector<ValueId>& inputs,
                       int outputs) {
  const std::string where = format("node {}", name);
  if (name.empty()) fail("node", format("a {} has an empty name", op));
  if (node_names_.contains(name)) fail(where, "another node has this name; names are unique");
  const ops::NodeFacts facts = facts_of(where, attributes, inputs, outputs);
  Node node{name, op, attributes, inputs, {}};
  try {
    node.bound = ops::bind_operator(ops::find_operator(op), facts);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    const std::string& why = error.message();
    fail(where, why.find(op) == std::string::npos ? format("{}: {}", op, why) : why);
  }
  const std::vector<ops::ValueSpec>& results = node.bound->outputs();
  // What no sample has a part in would be the same for every micro-batch.
  const bool of_samples = std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) {
    return input >= 0 && !ops::is_kept(value(input).role);
  });
  if (!of_samples && !whole_inputs_ && !results[0].shape.batched())
    fail(where, format("its output {} would have no row per sample; feed it a value that has",
                       ops::to_string(results[0].shape)));

  const NodeId id = nodes();
  node.key = static_cast<uint32_t>(id);
  const bool trained = std::any_of(facts.inputs.begin(), facts.inputs.end(),
                                   [](const ops::Operand& each) { return each.wants_gradient; });
  for (size_t i = 0; i < results.size(); ++i) {
    Value value{format("{}.output{}", name, i == 0 ? "" : std::to_string(i + 1)), results[i]};
    value.producer = id;
    value.output = static_cast<int>(i);
    node.outputs.push_back(
        add_value(std::move(value), trained && ops::is_floating(results[i].dtype)));
  }
  if (node.bound->is_loss() && loss_ < 0) loss_ = id;
  boost::add_vertex(node, graph_);
  node_names_.emplace(name, id);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] < 0) continue;
    const auto slot = static_cast<size_t>(inputs[i]);
    uses_[slot].push_back({id, static_cast<int>(i)});
    if (values_[slot].producer >= 0)
      boost::add_edge(static_cast<size_t>(values_[slot].producer), static_cast<size_t>(id),
                      Edge{inputs[i], static_cast<int>(i)}, graph_);
  }
  return id;
}

ValueId Model::find_value(const std::string& name) const {
  const auto at = value_names_.find(name);
  return at == value_names_.end() ? -1 : at->second;
}

NodeId Model::find_node(const std::string& name) const {
  const auto at = node_names_.find(name);
  return at == node_names_.end() ? -1 : at->second;
}

std::vector<ValueId> Model::parameters() const {
  std::vector<ValueId> result;
  for (ValueId id = 0; id < values(); ++id)
    if (value(id).role == Role::kParameter) result.push_back(id);
  return result;
}

std::vector<ValueId> Model::kept_values() const {
  std::vector<ValueId> result;
  for (ValueId id = 0; id < values(); ++id)
    if (ops::is_kept(value(id).role)) result.push_back(id);
  return result;
}

std::vector<Result> Model::results() const {
  if (names_results()) return results_;
  std::vector<Result> result;
  for (ValueId id = 0; id < values(); ++id)
    if (value(id).producer >= 0 && uses(id).empty()) result.push_back({value(id).name, id});
  return result;
}

Model::FrozenGraph Model::freeze() const {
  std::vector<std::pair<size_t, size_t>> edges;
  const auto [begin, end] = boost::edges(graph_);
  for (auto edge = begin; edge != end; ++edge)
    edges.emplace_back(boost::source(*edge, graph_), boost::target(*edge, graph_));
  return {boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
          boost::num_vertices(graph_)};
}

std::string Model::fingerprint() const {
  runtime::Fingerprint hash;
  for (const Value& v : values_) {
    hash.add(format("value {} {} role {} init {} {} number {}", v.name, spec_text(v.spec),
                    static_cast<int>(v.role), ops::to_string(v.initializer.kind),
                    v.initializer.scale, v.parameter));
    if (v.literal != nullptr) hash.add(literal_text(*v.literal));
    if (v.contents != nullptr) hash.add(v.contents->identity());
  }
  for (NodeId id = 0; id < nodes(); ++id) {
    const Node& n = node(id);
    hash.add(format("node {} {} inputs {} outputs {}", n.name, n.op, fmt::join(n.inputs, ","),
                    fmt::join(n.outputs, ",")));
    for (const auto& [key, attribute] : n.attributes)
      hash.add(format("attribute {} {}", key, std::visit(AttributeText{}, attribute)));
  }
  for (const Result& each : results_) hash.add(format("result {} {}", each.name, each.value));
  return hash.hex();
}

bool Model::is_unread(NodeId id) const {
  static const std::set<std::string> kEquals{"Split", "RNN", "GRU", "LSTM"};
  const std::vector<ValueId>& outputs = node(id).outputs;
  if (!kEquals.contains(node(id).op)) return uses(outputs.front()).empty();
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](ValueId output) { return uses(output).empty(); });
}

void Model::check() const {
  if (nodes() == 0) fail("", "a model needs at least one node");
  const NodeId first_loss = loss();
  for (NodeId id = 0; id < nodes(); ++id)
    if (op(id).is_loss() && id != first_loss)
      fail(format("node {}", node(id).name),
           format("a second loss; {} is one already", node(first_loss).name));
  for (ValueId id = 0; id < values(); ++id) {
    const Value& v = value(id);
    if (!uses(id).empty()) continue;
    if (v.role != Role::kActivation)
      fail(format("value {}", v.name), "no node reads it; remove it or use it");
    const bool main_output = node(v.producer).outputs.front() == id;
    // Of pieces of a node some may be for an output of it that nobody reads.
    const bool must_be_read = first_loss >= 0 && main_output && original_ == nullptr;
    if (must_be_read && is_unread(v.producer) && v.producer != first_loss)
      fail(format("node {}", node(v.producer).name),
           "nothing reads its output, so it has no part in the loss");
  }
}

}  // namespace kerf::partitioner
