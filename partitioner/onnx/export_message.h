// The message of an ONNX file in the making. For the files of this folder that know protobuf. Used
// by one thread.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner::onnx {

// Name, type and shape; no contents.
void put_kind(const std::string& name, const ops::ValueSpec& spec, ::onnx::TensorProto& to);
void put_attribute(const std::string& name, const ops::Attribute& value, ::onnx::NodeProto& to);

class ExportMessage {
 public:
  explicit ExportMessage(const Model& model) : model_(model) {}

  // What the value is called in the file: as in the model, unless something else is.
  const std::string& name_of(ValueId id);
  // Nothing else in the file is called so.
  std::string fresh(const std::string& base);

  void add_input(ValueId id);
  // `name` is the file's; values that several results name get it by an Identity. First of all.
  void name_results(const std::vector<Result>& results);
  void add_result(const Result& result);
  // Of a name that nothing else has; the same for all inputs.
  void add_constant_result(const std::string& name, const ops::TensorLiteral& literal);
  // Without contents.
  ::onnx::TensorProto& add_kept(ValueId id);
  // Under a fresh name, which it returns.
  std::string add_constant(const std::string& base, const ops::TensorLiteral& literal);
  // At the end of what there is.
  ::onnx::NodeProto& add_node(const std::string& op, const std::string& name,
                              const std::vector<std::string>& inputs, const std::string& output);
  void add_node(const ::onnx::NodeProto& node) { *graph().add_node() = node; }
  // An int64 list of one number, the batch, as node `name` gives it.
  std::string add_batch(const std::string& name);

  // Done; written for `opset`. Throws Error{kUsage} where it takes more than `most` bytes.
  std::string bytes(int opset, size_t most);

 private:
  ::onnx::GraphProto& graph() { return *message_.mutable_graph(); }

  const Model& model_;
  ::onnx::ModelProto message_;
  std::map<ValueId, std::string> names_;
  std::set<std::string> taken_;  // names
};

}  // namespace kerf::partitioner::onnx
