#include "partitioner/onnx/export_message.h"

#include <filesystem>
#include <variant>

#include "ops/onnx_types.h"
#include "partitioner/onnx/graph.h"
#include "runtime/format.h"

namespace kerf::partitioner::onnx {
namespace {

using ::onnx::AttributeProto;

constexpr const char* kBatchName = "N";

// The message format that came with an opset.
int ir_version(int opset) {
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  return opset <= 22 ? 10 : 11;
}

void put_tensor(const std::string& name, const ops::TensorLiteral& literal,
                ::onnx::TensorProto& to) {
  put_kind(name, {literal.dtype, literal.shape}, to);
  to.set_raw_data(literal.bytes);
}

void put_info(const std::string& name, const ops::ValueSpec& spec, ::onnx::ValueInfoProto& to) {
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
    put_tensor("", value, *to.mutable_t());
  }
};

}  // namespace

void put_kind(const std::string& name, const ops::ValueSpec& spec, ::onnx::TensorProto& to) {
  to.set_name(name);
  to.set_data_type(ops::onnx_type(spec.dtype));
  for (const int64_t extent : spec.shape) to.add_dims(extent);
}

void put_attribute(const std::string& name, const ops::Attribute& value, ::onnx::NodeProto& to) {
  AttributeProto& attribute = *to.add_attribute();
  attribute.set_name(name);
  std::visit(PutAttribute{attribute}, value);
}

const std::string& ExportMessage::name_of(ValueId id) {
  const auto known = names_.find(id);
  if (known != names_.end()) return known->second;
  return names_.emplace(id, fresh(model_.value(id).name)).first->second;
}

std::string ExportMessage::fresh(const std::string& base) {
  std::string name = base;
  for (int next = 2; !taken_.insert(name).second; ++next) name = format("{}_{}", base, next);
  return name;
}

void ExportMessage::add_input(ValueId id) {
  put_info(name_of(id), model_.value(id).spec, *graph().add_input());
}

void ExportMessage::name_results(const std::vector<Result>& results) {
  for (const Result& result : results) {
    names_.emplace(result.value, result.name);
    taken_.insert(result.name);
  }
}

void ExportMessage::add_result(const Result& result) {
  if (name_of(result.value) != result.name)  // another result has named it
    add_node("Identity", result.name, {name_of(result.value)}, result.name);
  put_info(result.name, model_.value(result.value).spec, *graph().add_output());
}

void ExportMessage::add_constant_result(const std::string& name,
                                        const ops::TensorLiteral& literal) {
  add_node("Identity", name, {add_constant(name + ".value", literal)}, name);
  put_info(name, {literal.dtype, literal.shape}, *graph().add_output());
}

::onnx::TensorProto& ExportMessage::add_kept(ValueId id) {
  ::onnx::TensorProto& tensor = *graph().add_initializer();
  put_kind(name_of(id), model_.value(id).spec, tensor);
  return tensor;
}

std::string ExportMessage::add_constant(const std::string& base,
                                        const ops::TensorLiteral& literal) {
  std::string name = fresh(base);
  put_tensor(name, literal, *graph().add_initializer());
  return name;
}

::onnx::NodeProto& ExportMessage::add_node(const std::string& op, const std::string& name,
                                           const std::vector<std::string>& inputs,
                                           const std::string& output) {
  ::onnx::NodeProto& node = *graph().add_node();
  node.set_op_type(op);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

std::string ExportMessage::add_batch(const std::string& name) {
  KERF_CHECK(graph().input_size() > 0, "{} counts samples, but nothing has any", name);
  const std::string& rows = graph().input(0).name();  // whose first axis is the batch
  ::onnx::NodeProto& node = add_node("Shape", name, {rows}, fresh(name));
  put_attribute("start", int64_t{0}, node);
  put_attribute("end", int64_t{1}, node);
  return node.output(0);
}

std::string ExportMessage::bytes(int opset, size_t most) {
  message_.set_producer_name("kerf");
  graph().set_name(std::filesystem::path(model_.name()).stem().string());
  auto& import = *message_.add_opset_import();
  import.set_domain("");
  import.set_version(opset);
  message_.set_ir_version(ir_version(opset));
  if (message_.ByteSizeLong() > most)
    refuse(format("it takes {} without its weights, and {} is the most of an ONNX file",
                  human_bytes(static_cast<double>(message_.ByteSizeLong())),
                  human_bytes(static_cast<double>(most))),
           model_.name());
  return message_.SerializeAsString();
}

}  // namespace kerf::partitioner::onnx
