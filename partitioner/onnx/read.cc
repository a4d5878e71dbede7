#include "partitioner/onnx/read.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ops/onnx_types.h"
#include "ops/operator.h"
#include "partitioner/onnx/tensors.h"
#include "partitioner/onnx/torch_program.h"

namespace kerf::partitioner::onnx {
namespace {

using ::onnx::AttributeProto;

constexpr size_t kMostLiteral = size_t{256} << 20;  // of an attribute
constexpr size_t kMostDataFile = size_t{1} << 30;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : files_(path) {
    graph_.origin = path.string();
  }

  Graph read() {
    const Stripped stripped = strip(*files_.model());
    ::onnx::ModelProto model;
    if (!model.ParseFromString(stripped.message)) refuse("it is no ONNX model", graph_.origin);
    read_opsets(model);
    const ::onnx::GraphProto& graph = model.graph();
    if (graph.sparse_initializer_size() > 0)
      refuse("it has sparse initializers, which are not known here; make them dense",
             graph_.origin);
    read_initializers(graph, stripped);
    graph_.stored_bytes = files_.stored_bytes();
    graph_.by_torch = model.producer_name() == "pytorch";
    places_ = read_signature(metadata(graph, kOfGraph,
                                      "pkg.torch.export.ExportedProgram"
                                      ".graph_signature"),
                             graph_.torch);
    if (!graph_.torch.empty()) read_computed(graph);
    for (const auto& input : graph.input())
      if (!graph_.initializers.contains(input.name())) read_input(input);
    for (const auto& node : graph.node()) read_node(node);
    for (const auto& output : graph.output()) graph_.outputs.push_back(output.name());
    put_in_order(graph_);
    return std::move(graph_);
  }

 private:
  static bool is_core(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

  void read_opsets(const ::onnx::ModelProto& model) {
    for (const auto& opset : model.opset_import()) {
      if (!is_core(opset.domain())) continue;
      if (opset.version() < 1 || opset.version() > ops::kNewestOpset)
        refuse(format("it is of opset {}; known are opsets to {}: export it with an older one",
                      opset.version(), ops::kNewestOpset),
               graph_.origin);
      graph_.opset = static_cast<int>(opset.version());
    }
    if (graph_.opset == 0) graph_.opset = 1;  // as ONNX says of files that name none
  }

  void read_initializers(const ::onnx::GraphProto& graph, const Stripped& stripped) {
    for (int i = 0; i < graph.initializer_size(); ++i) {
      const auto& tensor = graph.initializer(i);
      const std::string where = format("{}: initializer {}", graph_.origin, tensor.name());
      if (tensor.name().empty()) refuse("an initializer has no name", graph_.origin);
      const auto raw = stripped.raw.find(i);
      Stored stored =
          stored_tensor(tensor, raw == stripped.raw.end() ? nullptr : &raw->second, files_, where);
      if (!graph_.initializers.emplace(tensor.name(), std::move(stored)).second)
        refuse("another initializer has this name", where);
    }
  }

  void read_input(const ::onnx::ValueInfoProto& info) {
    const std::string where = format("{}: input {}", graph_.origin, info.name());
    if (!info.type().has_tensor_type()) refuse("it is no tensor", where);
    const auto& type = info.type().tensor_type();
    const auto dtype = ops::dtype_of_onnx(type.elem_type());
    if (!dtype)
      refuse(format("its element type {} is not known here", type_name(type.elem_type())), where);
    if (!type.has_shape()) refuse("it has no shape; export the model with one", where);
    if (type.shape().dim_size() > ops::Shape::kMaxRank)
      refuse(
          format("it has {} axes; {} are the most", type.shape().dim_size(), ops::Shape::kMaxRank),
          where);
    GraphInput input{info.name(), given_as(*dtype), {}};
    if (input.dtype != *dtype) input.in_file = *dtype;
    for (const auto& dim : type.shape().dim()) {
      Dimension& axis = input.shape.emplace_back();
      if (!dim.has_dim_value()) {
        axis.symbol = dim.dim_param();
        continue;
      }
      axis.extent = dim.dim_value();
      if (axis.extent < 0) refuse(format("an extent is {}", axis.extent), where);
    }
    graph_.inputs.push_back(std::move(input));
  }

  void read_node(const ::onnx::NodeProto& proto) {
    GraphNode node{name_of(proto), proto.op_type(), {}, {}, {}};
    const std::string where = place_of(graph_, node);
    if (!is_core(proto.domain()))
      refuse(format("its domain {} is not known here", proto.domain()), where);
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
    drop_absent_outputs(node);
    for (const auto& attribute : proto.attribute())
      if (!node.attributes.emplace(attribute.name(), value_of(attribute, where)).second)
        refuse(format("attribute {} stands there twice", attribute.name()), where);
    node.scope = innermost(metadata(proto, kOfNode, "pkg.torch.onnx.name_scopes"));
    node.scope_class = innermost(metadata(proto, kOfNode, "pkg.torch.onnx.class_hierarchy"));
    if (!graph_.torch.empty()) {
      TorchCall call = read_call(metadata(proto, kOfNode, "pkg.torch.onnx.fx_node"), places_);
      node.call = std::move(call.name);
      node.call_reads = std::move(call.reads);
    }
    graph_.nodes.push_back(std::move(node));
  }

  // What initializers were computed of, be it nothing of the program. What has a name of the
  // exporter's alone is arithmetic around shapes, or a part of one call.
  void read_computed(const ::onnx::GraphProto& graph) {
    std::map<std::string, size_t> by_name;
    for (size_t i = 0; i < graph_.torch.size(); ++i) by_name.emplace(graph_.torch[i].name, i);
    for (const auto& info : graph.value_info()) {
      if (!graph_.initializers.contains(info.name())) continue;
      ComputedOf computed{{}, true};
      std::set<size_t> seen;
      const std::vector<std::string> folded =
          read_list(metadata(info, kOfValue, "pkg.onnxscript.optimizer.folded_from"));
      for (const std::string& each : folded) {
        const auto found = by_name.find(each);
        if (found != by_name.end() && seen.insert(found->second).second)
          computed.tensors.push_back(found->second);
        computed.only = computed.only && (found != by_name.end() || each.starts_with("val_"));
      }
      if (!folded.empty()) graph_.computed.emplace(info.name(), std::move(computed));
    }
  }

  // Numbers of the fields that have metadata, which ONNX has since 1.16.
  static constexpr int kOfNode = 9;
  static constexpr int kOfGraph = 16;
  static constexpr int kOfValue = 4;

  // The text that an entry of this key has; empty: there is none.
  template <class Message>
  static std::string metadata(const Message& message, int field_number, const char* key) {
    const auto& fields = message.unknown_fields();
    for (int i = 0; i < fields.field_count(); ++i) {
      const auto& field = fields.field(i);
      ::onnx::StringStringEntryProto entry;
      if (field.number() == field_number &&
          field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
          entry.ParseFromString(field.length_delimited()) && entry.key() == key)
        return entry.value();
    }
    return {};
  }

  // The last but one of a list of texts, of which the last is the node itself: "blocks.0.proj" of
  // "['', 'blocks.0', 'blocks.0.proj', 'linear_2']".
  static std::string innermost(const std::string& list) {
    const size_t last = list.rfind("', '");
    const size_t before =
        last == std::string::npos || last == 0 ? last : list.rfind('\'', last - 1);
    if (before == std::string::npos || last == 0) return {};
    return list.substr(before + 1, last - before - 1);
  }

  // Its own where it is the first of that name.
  std::string name_of(const ::onnx::NodeProto& proto) {
    std::string base = proto.name();
    for (int i = 0; base.empty() && i < proto.output_size(); ++i) base = proto.output(i);
    if (base.empty()) base = proto.op_type();
    std::string name = base;
    for (int& last = last_of_name_[base]; !names_.insert(name).second;)
      name = format("{}_{}", base, ++last + 1);
    return name;
  }

  ops::Attribute value_of(const AttributeProto& attribute, const std::string& where) {
    const std::string at = format("{}: attribute {}", where, attribute.name());
    switch (attribute.type()) {
      case AttributeProto::INT:
        return attribute.i();
      case AttributeProto::FLOAT:
        return static_cast<double>(attribute.f());
      case AttributeProto::STRING:
        return attribute.s();
      case AttributeProto::INTS:
        return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
      case AttributeProto::FLOATS:
        return std::vector<double>(attribute.floats().begin(), attribute.floats().end());
      case AttributeProto::STRINGS:
        return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
      case AttributeProto::TENSOR: {
        const Stored stored = stored_tensor(attribute.t(), nullptr, files_, at);
        return literal_of("it", stored.spec, *stored.contents, kMostLiteral);
      }
      default:
        refuse(format("its type {} is not known here",
                      AttributeProto::AttributeType_IsValid(attribute.type())
                          ? AttributeProto::AttributeType_Name(attribute.type())
                          : format("number {}", static_cast<int>(attribute.type()))),
               at);
    }
  }

  WeightFiles files_;
  Graph graph_;
  TorchPlaces places_;
  std::set<std::string> names_;
  std::map<std::string, int> last_of_name_;  // nodes that got another name than this, their own
};

}  // namespace

Graph read_graph(const std::filesystem::path& path) { return Reader(path).read(); }

ops::TensorLiteral read_tensor(const std::filesystem::path& path) {
  const std::string where = path.string();
  WeightFiles files(path);
  if (files.model()->bytes() > kMostDataFile)
    throw Error(ErrorCode::kUsage, "a tensor of more than 1 GiB", where);
  std::string message(files.model()->bytes(), '\0');
  files.model()->read(0, std::as_writable_bytes(std::span(message)));
  ::onnx::TensorProto tensor;
  if (!tensor.ParseFromString(message))
    throw Error(ErrorCode::kUsage, "it is no tensor of ONNX", where);
  const Stored stored = stored_tensor(tensor, nullptr, files, where);
  return literal_of(where, stored.spec, *stored.contents, kMostDataFile);
}

}  // namespace kerf::partitioner::onnx
