// An ONNX file's message without the raw bytes of its large initializers, which stay in the file:
// what is parsed is small however large the weights are. Pure functions of a file.
#pragma once

#include <map>
#include <string>

#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {

struct RawBytes {
  uint64_t first = 0;  // in the file
  uint64_t count = 0;
};

struct Stripped {
  std::string message;
  // By number of the initializer.
  std::map<int, RawBytes> raw;
};

// Throws Error{kUsage} naming the file where it is no message, claims more than it has, or is of
// 2 GiB and more.
Stripped strip(const WeightFile& file);

}  // namespace kerf::partitioner::onnx
