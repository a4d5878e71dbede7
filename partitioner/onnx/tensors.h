// Tensors of ONNX's messages. For the files of this folder that know protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/onnx/graph.h"
#include "partitioner/onnx/stripped.h"

namespace kerf::partitioner::onnx {

// Opens the files of a model's weights: the model's own, and those in its folder; where the model
// is a link to a file in another, in that too. Links within a folder may lead to the other, as
// those of caches do that have all files in one.
class WeightFiles {
 public:
  explicit WeightFiles(const std::filesystem::path& model);

  const std::shared_ptr<const WeightFile>& model() const { return model_; }
  // Of external data. Throws Error{kUsage} at `where` for a place that is in none of the folders.
  std::shared_ptr<const WeightFile> external(const std::string& location, const std::string& where);

  // Counts bytes of a file that are a tensor's.
  void claim(const WeightFile& file, uint64_t bytes);
  // Of all that were claimed, those that are there: tensors may share them, and files have holes.
  uint64_t stored_bytes() const;

 private:
  static constexpr size_t kMostOpen = 64;  // of external files: processes may have some hundreds

  std::vector<std::filesystem::path> folders_;  // without links
  std::shared_ptr<const WeightFile> model_;
  std::map<std::string, std::shared_ptr<const WeightFile>> external_;
  struct Claimed {
    uint64_t bytes = 0;
    uint64_t most = 0;  // that are there
  };
  std::map<std::pair<uint64_t, uint64_t>, Claimed> claimed_;  // by WeightFile::which()
};

std::string type_name(int32_t onnx_type);
// Throws Error{kUsage} at `where`. `raw`: where its bytes were left; null if they are in the
// message.
Stored stored_tensor(const ::onnx::TensorProto& tensor, const RawBytes* raw, WeightFiles& files,
                     const std::string& where);

}  // namespace kerf::partitioner::onnx
