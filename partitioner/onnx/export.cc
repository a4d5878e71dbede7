#include "partitioner/onnx/export.h"

#include "partitioner/onnx/data_beside.h"
#include "partitioner/onnx/export_message.h"
#include "partitioner/onnx/export_nodes.h"
#include "partitioner/onnx/export_scope.h"
#include "runtime/crc32c.h"
#include "runtime/file.h"
#include "runtime/format.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr size_t kMostOfANode = 1024;  // bytes, as a rule

bool may_lie_beside(const Value& value) {
  return value.literal == nullptr && value.spec.bytes(0) >= kLeastBeside;
}

// About what the file takes, weights and all.
size_t expected_bytes(const Model& model, const ExportScope& scope, const ExportOptions& options) {
  size_t all = static_cast<size_t>(model.nodes()) * kMostOfANode;
  for (const ValueId id : scope.kept()) all += model.value(id).spec.bytes(0);
  for (const auto& [name, literal] : options.constants) all += literal.bytes.size();
  return all;
}

// Of what lies beside it.
uint32_t checksum_of(const Model& model, const ExportScope& scope, const WeightsOf& weights) {
  uint32_t crc = 0;
  for (const ValueId id : scope.kept())
    if (may_lie_beside(model.value(id)))
      crc = runtime::extend_crc32c(crc, weights(model.value(id)));
  return crc;
}

void put_contents(const Value& value, const WeightsOf& weights, DataBeside* beside,
                  ::onnx::TensorProto& to) {
  const std::string bytes = value.literal != nullptr ? value.literal->bytes : weights(value);
  KERF_CHECK(bytes.size() == value.spec.bytes(0), "{} bytes of {}", bytes.size(), value.name);
  if (beside != nullptr && may_lie_beside(value))
    beside->put(bytes, to);
  else
    to.set_raw_data(bytes);
}

// The file. `beside`: null where weights are in it.
std::string message_of(const Model& model, const ExportScope& scope, const WeightsOf& weights,
                       DataBeside* beside, const ExportOptions& options) {
  ExportMessage message(model);
  message.name_results(scope.results());
  for (const auto& [name, literal] : options.constants) message.fresh(name);
  for (ValueId id = 0; id < model.values(); ++id) {
    const Value& value = model.value(id);
    if (!scope.has(id) || value.producer >= 0) continue;
    if (ops::is_kept(value.role))
      put_contents(value, weights, beside, message.add_kept(id));
    else
      message.add_input(id);
  }
  for (NodeId id = 0; id < model.nodes(); ++id)
    if (scope.has(model.node(id))) add_node(model, scope, model.node(id), message);
  for (const Result& result : scope.results()) message.add_result(result);
  for (const auto& [name, literal] : options.constants) message.add_constant_result(name, literal);
  return message.bytes(scope.opset(), options.most_bytes);
}

}  // namespace

void export_file(const Model& model, const WeightsOf& weights, const std::filesystem::path& path,
                 const ExportOptions& options) {
  const ExportScope scope(model);
  if (!options.data_beside && expected_bytes(model, scope, options) <= options.most_bytes)
    return runtime::write_file_atomic(path, message_of(model, scope, weights, nullptr, options));
  DataBeside beside(path, checksum_of(model, scope, weights));
  const std::string message = message_of(model, scope, weights, &beside, options);
  beside.commit();
  runtime::write_file_atomic(path, message);
}

}  // namespace kerf::partitioner::onnx
