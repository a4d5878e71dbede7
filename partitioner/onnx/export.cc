#include "partitioner/onnx/export.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ops/onnx_types.h"
#include "ops/operator.h"
#include "partitioner/onnx/data_beside.h"
#include "partitioner/onnx/export_literals.h"
#include "partitioner/onnx/graph.h"
#include "runtime/crc32c.h"
#include "runtime/file.h"
#include "runtime/format.h"

namespace kerf::partitioner::onnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::TensorProto;
using ops::DType;

constexpr size_t kMostOfANode = 1024;  // bytes, as a rule
constexpr const char* kBatchName = "N";

// The message format that came with an opset.
int ir_version(int opset) {
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  return opset <= 22 ? 10 : 11;
}

// Since when ONNX has an operator that is newer than what is written else.
int first_opset_of(const Node& node) {
  static const std::map<std::string, int> kSince{{"Gelu", 20},
                                                 {"GroupNormalization", 21},
                                                 {"Attention", 23},
                                                 {"RMSNormalization", 23},
                                                 {"RotaryEmbedding", 23},
                                                 {"Swish", 24}};
  if (node.op == "AveragePool" && node.attributes.contains("dilations")) return 19;
  const auto since = kSince.find(node.op);
  return since == kSince.end() ? 1 : since->second;
}

void put_kind(const std::string& name, DType dtype, const ops::Shape& shape, TensorProto& to) {
  to.set_name(name);
  to.set_data_type(ops::onnx_type(dtype));
  for (const int64_t extent : shape) to.add_dims(extent);
}

void put_tensor(const std::string& name, DType dtype, const ops::Shape& shape,
                const std::string& bytes, TensorProto& to) {
  put_kind(name, dtype, shape, to);
  to.set_raw_data(bytes);
}

struct PutAttribute {
  AttributeProto& to;

  void operator()(int64_t value) const {
    to.set_type(AttributeProto::INT);
    to.set_i(value);
  }
  void operator()(double value) const {
    to.set_type(AttributeProto::FLOAT);
    to.set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    to.set_type(AttributeProto::STRING);
    to.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    to.set_type(AttributeProto::INTS);
    for (const int64_t value : values) to.add_ints(value);
  }
  void operator()(const std::vector<double>& values) const {
    to.set_type(AttributeProto::FLOATS);
    for (const double value : values) to.add_floats(static_cast<float>(value));
  }
  void operator()(const std::vector<std::string>& values) const {
    to.set_type(AttributeProto::STRINGS);
    for (const std::string& value : values) to.add_strings(value);
  }
  void operator()(const ops::TensorLiteral& value) const {
    to.set_type(AttributeProto::TENSOR);
    put_tensor("", value.dtype, value.shape, value.bytes, *to.mutable_t());
  }
};

class Exporter {
 public:
  Exporter(const Model& model, const WeightsOf& weights) : model_(model), weights_(weights) {
    name_results();
    mark_needed();
    choose_opset();
  }

  // About what the file takes, weights and all.
  size_t expected_bytes() const {
    size_t all = static_cast<size_t>(model_.nodes()) * kMostOfANode;
    for (const ValueId id : kept()) all += model_.value(id).spec.bytes(0);
    return all;
  }

  // Of what lies beside it.
  uint32_t checksum() const {
    uint32_t crc = 0;
    for (const ValueId id : kept())
      if (may_lie_beside(model_.value(id)))
        crc = runtime::extend_crc32c(crc, weights_(model_.value(id)));
    return crc;
  }

  // `beside`: null where weights are in the message.
  std::string bytes(DataBeside* beside, size_t most) {
    beside_ = beside;
    message_.set_producer_name("kerf");
    ::onnx::GraphProto& graph = *message_.mutable_graph();
    graph.set_name(std::filesystem::path(model_.name()).stem().string());
    for (ValueId id = 0; id < model_.values(); ++id)
      if (needed_[static_cast<size_t>(id)] && model_.value(id).producer < 0) add_value(id);
    for (NodeId id = 0; id < model_.nodes(); ++id)
      if (is_needed(model_.node(id))) add_node(id);
    for (const auto& [name, value] : results_) add_result(name, value);
    auto& opset = *message_.add_opset_import();
    opset.set_domain("");
    opset.set_version(opset_);
    message_.set_ir_version(ir_version(opset_));
    if (message_.ByteSizeLong() > most)
      refuse(format("it takes {} without its weights, and {} is the most of an ONNX file",
                    human_bytes(static_cast<double>(message_.ByteSizeLong())),
                    human_bytes(static_cast<double>(most))),
             model_.name());
    return message_.SerializeAsString();
  }

 private:
  std::vector<ValueId> kept() const {
    std::vector<ValueId> ids;
    for (ValueId id = 0; id < model_.values(); ++id)
      if (needed_[static_cast<size_t>(id)] && ops::is_kept(model_.value(id).role))
        ids.push_back(id);
    return ids;
  }
  static bool may_lie_beside(const Value& value) {
    return value.literal == nullptr && value.spec.bytes(0) >= kLeastBeside;
  }

  std::string where_of(const Node& node) const {
    return format("{}: node {} ({})", model_.name(), node.name, node.op);
  }

  void name_results() {
    if (model_.names_results()) {
      for (const Result& result : model_.results())
        results_.emplace_back(result.name, result.value);
    } else if (model_.loss() >= 0) {
      const ValueId scores = model_.node(model_.loss()).inputs[0];
      results_.emplace_back("scores", scores);
    } else {
      for (const Result& result : model_.results())
        results_.emplace_back(result.name, result.value);
    }
    for (auto& [name, value] : results_) {
      value = behind_dropouts(value);
      names_.emplace(value, name);
      taken_.insert(name);
    }
  }

  // In answers they do nothing.
  ValueId behind_dropouts(ValueId id) const {
    const NodeId producer = model_.value(id).producer;
    if (producer < 0 || model_.node(producer).op != "Dropout") return id;
    return behind_dropouts(model_.node(producer).inputs[0]);
  }

  void mark_needed() {
    needed_.assign(static_cast<size_t>(model_.values()), false);
    std::vector<ValueId> open;
    const auto need = [&](ValueId id) {
      if (id < 0 || needed_[static_cast<size_t>(id)]) return;
      needed_[static_cast<size_t>(id)] = true;
      open.push_back(id);
    };
    for (const auto& [name, value] : results_) need(value);
    while (!open.empty()) {
      const NodeId producer = model_.value(open.back()).producer;
      open.pop_back();
      if (producer < 0) continue;
      need(model_.node(producer).outputs[0]);  // by which a node is known to be needed
      for (const ValueId input : model_.node(producer).inputs)
        need(input < 0 ? -1 : behind_dropouts(input));
    }
  }

  bool is_needed(const Node& node) const {
    return needed_[static_cast<size_t>(node.outputs[0])] && node.op != "Dropout";
  }

  void choose_opset() {
    for (NodeId id = 0; id < model_.nodes(); ++id)
      if (is_needed(model_.node(id)))
        opset_ = std::max({opset_, ops::find_operator(model_.node(id).op).first_opset,
                           first_opset_of(model_.node(id))});
  }

  const std::string& name_of(ValueId id) {
    const auto known = names_.find(id);
    if (known != names_.end()) return known->second;
    return names_.emplace(id, fresh(model_.value(id).name)).first->second;
  }

  // Nothing else in the file is called so.
  std::string fresh(const std::string& base) {
    std::string name = base;
    for (int next = 2; !taken_.insert(name).second; ++next) name = format("{}_{}", base, next);
    return name;
  }

  static void put_info(const std::string& name, const ops::ValueSpec& spec,
                       ::onnx::ValueInfoProto& to) {
    to.set_name(name);
    auto& type = *to.mutable_type()->mutable_tensor_type();
    type.set_elem_type(ops::onnx_type(spec.dtype));
    auto& shape = *type.mutable_shape();
    for (const int64_t extent : spec.shape) {
      auto& dim = *shape.add_dim();
      if (extent >= 0) dim.set_dim_value(extent);
      if (extent == ops::kBatch) dim.set_dim_param(kBatchName);
    }
  }

  void add_value(ValueId id) {
    const Value& value = model_.value(id);
    ::onnx::GraphProto& graph = *message_.mutable_graph();
    if (!ops::is_kept(value.role)) {
      put_info(name_of(id), value.spec, *graph.add_input());
      if (batch_of_.empty()) batch_of_ = name_of(id);
      return;
    }
    const std::string bytes = value.literal != nullptr ? value.literal->bytes : weights_(value);
    KERF_CHECK(bytes.size() == value.spec.bytes(0), "{} bytes of {}", bytes.size(), value.name);
    TensorProto& tensor = *graph.add_initializer();
    put_kind(name_of(id), value.spec.dtype, value.spec.shape, tensor);
    if (beside_ != nullptr && may_lie_beside(value))
      beside_->put(bytes, tensor);
    else
      tensor.set_raw_data(bytes);
  }

  void add_result(const std::string& name, ValueId value) {
    ::onnx::GraphProto& graph = *message_.mutable_graph();
    if (name_of(value) != name) {  // another result has named it
      auto& same = *graph.add_node();
      same.set_op_type("Identity");
      same.set_name(name);
      same.add_input(name_of(value));
      same.add_output(name);
    }
    put_info(name, model_.value(value).spec, *graph.add_output());
  }

  std::string add_initializer(const std::string& base, const ops::TensorLiteral& literal) {
    const std::string name = fresh(base);
    put_tensor(name, literal.dtype, literal.shape, literal.bytes,
               *message_.mutable_graph()->add_initializer());
    return name;
  }

  // [N, 4, 3] as an input of Expand's: ONNX has no -1 there.
  std::string add_batched_shape(const Node& node, const std::vector<int64_t>& shape) {
    ::onnx::GraphProto& graph = *message_.mutable_graph();
    auto& rows = *graph.add_node();
    rows.set_op_type("Shape");
    rows.set_name(node.name + ".batch");
    rows.add_input(batch_of_);
    rows.add_output(fresh(node.name + ".batch"));
    put_attribute("start", int64_t{0}, rows);
    put_attribute("end", int64_t{1}, rows);
    ::onnx::NodeProto concat;
    concat.set_op_type("Concat");
    concat.set_name(node.name + ".shape");
    concat.add_output(fresh(node.name + ".shape"));
    put_attribute("axis", int64_t{0}, concat);
    for (size_t i = 0; i < shape.size(); ++i)
      concat.add_input(shape[i] < 0
                           ? rows.output(0)
                           : add_initializer(format("{}.shape{}", node.name, i),
                                             {DType::kInt64, {1}, bytes_of_values({shape[i]})}));
    *graph.add_node() = concat;
    return concat.output(0);
  }

  static void put_attribute(const std::string& name, const ops::Attribute& value,
                            ::onnx::NodeProto& to) {
    AttributeProto& attribute = *to.add_attribute();
    attribute.set_name(name);
    std::visit(PutAttribute{attribute}, value);
  }

  void add_node(NodeId id) {
    const Node& node = model_.node(id);
    const ops::OperatorDefinition& definition = ops::find_operator(node.op);
    check_known(node);
    ::onnx::NodeProto made;
    made.set_op_type(node.op);
    made.set_name(node.name);
    for (const ValueId input : node.inputs)
      made.add_input(input < 0 ? "" : name_of(behind_dropouts(input)));
    add_outputs(node, made);
    for (const auto& [name, value] : node.attributes)
      add_attribute(node, definition, name, value, made);
    // How many equal parts, where no sizes are said.
    if (node.op == "Split" && !node.attributes.contains("split"))
      put_attribute("num_outputs", static_cast<int64_t>(made.output_size()), made);
    if (node.op == "Attention") repeat_mask(node, made);
    if (has_samples_first(node)) return add_steps_first(node, made);
    *message_.mutable_graph()->add_node() = made;
  }

  static bool has_samples_first(const Node& node) {
    return (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN") &&
           ops::attribute_int(node.attributes, "layout", 0) != 0;
  }

  std::string add_transpose(const Node& node, const std::string& of, const std::string& to,
                            const std::vector<int64_t>& perm) {
    auto& turned = *message_.mutable_graph()->add_node();
    turned.set_op_type("Transpose");
    turned.set_name(format("{}.transpose_{}", node.name, to));
    turned.add_input(of);
    turned.add_output(to);
    put_attribute("perm", perm, turned);
    return to;
  }

  // ONNX Runtime has no layout of recurrent networks but that of steps first.
  void add_steps_first(const Node& node, ::onnx::NodeProto& to) {
    constexpr std::array kTurned{0, 5, 6};  // X, initial_h, initial_c
    for (const int input : kTurned)
      if (input < to.input_size() && !to.input(input).empty())
        to.set_input(input,
                     add_transpose(node, to.input(input),
                                   fresh(format("{}.steps_first{}", node.name, input)), {1, 0, 2}));
    const std::vector<std::string> outputs(to.output().begin(), to.output().end());
    for (int i = 0; i < to.output_size(); ++i)
      to.set_output(i, fresh(format("{}.of_steps{}", node.name, i)));
    *message_.mutable_graph()->add_node() = to;
    for (int i = 0; i < to.output_size(); ++i)
      add_transpose(node, to.output(i), outputs[static_cast<size_t>(i)],
                    i == 0 ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>{1, 0, 2});
  }

  // ONNX Runtime wants a mask's pairs of query and key all there.
  void repeat_mask(const Node& node, ::onnx::NodeProto& to) {
    if (node.inputs.size() < 4 || node.inputs[3] < 0) return;
    const ops::Shape& mask = model_.value(node.inputs[3]).spec.shape;
    const ops::Shape& q = model_.value(node.inputs[0]).spec.shape;
    const ops::Shape& k = model_.value(node.inputs[1]).spec.shape;
    const std::vector<int64_t> pairs{q[q.rank() - 2], k[k.rank() - 2]};
    const int last = mask.rank() - 1;
    if (last > 0 && mask[last - 1] == pairs[0] && mask[last] == pairs[1]) return;
    ::onnx::NodeProto repeated;
    repeated.set_op_type("Expand");
    repeated.set_name(node.name + ".mask");
    repeated.add_input(to.input(3));
    repeated.add_input(
        add_initializer(node.name + ".pairs", {DType::kInt64, {2}, bytes_of_values(pairs)}));
    repeated.add_output(fresh(node.name + ".mask"));
    to.set_input(3, repeated.output(0));
    *message_.mutable_graph()->add_node() = repeated;
  }

  void add_outputs(const Node& node, ::onnx::NodeProto& to) {
    int used = node.op == "Split" ? static_cast<int>(node.outputs.size()) : 1;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (needed_[static_cast<size_t>(node.outputs[i])]) used = static_cast<int>(i) + 1;
    for (int i = 0; i < used; ++i) to.add_output(name_of(node.outputs[static_cast<size_t>(i)]));
  }

  void check_known(const Node& node) const {
    static const std::set<std::string> kOwn{"ChannelSum", "CenteredSquareSum", "ChannelStatistics",
                                            "LogLoss",    "PickLabel",         "SegmentLogSumExp",
                                            "SumLoss"};
    if (kOwn.contains(node.op)) refuse("ONNX has no such operator", where_of(node));
  }

  void add_attribute(const Node& node, const ops::OperatorDefinition& definition,
                     const std::string& name, const ops::Attribute& value, ::onnx::NodeProto& to) {
    if (name == "training_mode") return;  // answers have the running statistics
    if (name == "layout" && has_samples_first(node)) return;
    const auto place =
        std::find_if(definition.input_attributes.begin(), definition.input_attributes.end(),
                     [&](const ops::InputAttribute& each) { return each.name == name; });
    if (place == definition.input_attributes.end() || place->first_opset > opset_)
      return put_attribute(name, value, to);
    while (to.input_size() <= place->input) to.add_input("");
    const auto* list = std::get_if<std::vector<int64_t>>(&value);
    const bool batched = node.op == "Expand" && list != nullptr &&
                         std::find(list->begin(), list->end(), ops::kBatch) != list->end();
    to.set_input(place->input, batched ? add_batched_shape(node, *list)
                                       : add_initializer(format("{}.{}", node.name, name),
                                                         input_literal(node, name, value)));
  }

  ops::TensorLiteral input_literal(const Node& node, const std::string& name,
                                   const ops::Attribute& value) const {
    const DType dtype = model_.value(node.inputs[0]).spec.dtype;
    ops::TensorLiteral literal = literal_of_attribute(value, dtype, where_of(node));
    if (node.op == "TopK" && name == "k") literal.shape = {1};  // one number, but no scalar
    return literal;
  }

  const Model& model_;
  const WeightsOf& weights_;
  DataBeside* beside_ = nullptr;
  ::onnx::ModelProto message_;
  int opset_ = kExportedOpset;
  std::vector<std::pair<std::string, ValueId>> results_;
  std::map<ValueId, std::string> names_;
  std::set<std::string> taken_;  // names
  std::vector<bool> needed_;     // by value
  std::string batch_of_;         // an input
};

}  // namespace

void export_file(const Model& model, const WeightsOf& weights, const std::filesystem::path& path,
                 const ExportOptions& options) {
  Exporter exporter(model, weights);
  if (!options.data_beside && exporter.expected_bytes() <= options.most_bytes)
    return runtime::write_file_atomic(path, exporter.bytes(nullptr, options.most_bytes));
  DataBeside beside(path, exporter.checksum());
  const std::string message = exporter.bytes(&beside, options.most_bytes);
  beside.commit();
  runtime::write_file_atomic(path, message);
}

}  // namespace kerf::partitioner::onnx
