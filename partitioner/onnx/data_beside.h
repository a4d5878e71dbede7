// Weights in a file beside an ONNX file, which alone may not take 2 GiB. For the files of this
// folder that know protobuf. Used by one thread.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/file.h"

namespace kerf::partitioner::onnx {

// Smaller tensors stay in the message: readers look at shapes and the like before they open files.
inline constexpr size_t kLeastBeside = 1024;

class DataBeside {
 public:
  // Of the model at `model`, of weights with this checksum, which is in the file's name: a model
  // that was there before keeps its own until it is replaced.
  DataBeside(const std::filesystem::path& model, uint32_t checksum);

  // Writes them, and where they lie into the message.
  void put(const std::string& bytes, ::onnx::TensorProto& to);
  // Before it nobody sees the file.
  void commit() { file_.commit(); }

 private:
  std::string name_;
  runtime::AtomicFile file_;
  uint64_t written_ = 0;
};

}  // namespace kerf::partitioner::onnx
