// Tensors of ONNX's messages. For the files of this folder that know protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "partitioner/onnx/graph.h"
#include "partitioner/onnx/stripped.h"

namespace kerf::partitioner::onnx {

// Opens the files of a model's weights: the model's own, and those in its folder.
class WeightFiles {
 public:
  // `model`: the file itself.
  explicit WeightFiles(const std::filesystem::path& model);

  const std::shared_ptr<const WeightFile>& model() const { return model_; }
  // Of external data. Throws Error{kUsage} at `where` for a place that is not in the folder.
  std::shared_ptr<const WeightFile> external(const std::string& location, const std::string& where);

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const WeightFile> model_;
  std::map<std::string, std::shared_ptr<const WeightFile>> external_;
};

std::string type_name(int32_t onnx_type);
// Throws Error{kUsage} at `where`. `raw`: where its bytes were left; null if they are in the
// message.
Stored stored_tensor(const ::onnx::TensorProto& tensor, const RawBytes* raw, WeightFiles& files,
                     const std::string& where);

}  // namespace kerf::partitioner::onnx
