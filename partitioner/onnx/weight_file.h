// A file that weights are read from, in pieces, for as long as anybody wants some.
//
// Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ops/attributes.h"
#include "partitioner/contents.h"
#include "runtime/regular_file.h"

namespace kerf::partitioner::onnx {

class WeightFile {
 public:
  // A file that is kept open stays what it is though another gets its name; of many, all cannot be.
  enum class Keep : uint8_t { kOpen, kPath };

  // Throws Error{kUsage} naming the path if it is absent or no regular file.
  explicit WeightFile(const std::filesystem::path& path, Keep keep = Keep::kOpen);
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  const std::string& origin() const { return origin_; }
  uint64_t bytes() const { return bytes_; }
  // Less where it has holes, which are read as zeros.
  uint64_t bytes_on_disk() const { return bytes_on_disk_; }
  // Device and file: what no other has, whatever it is called.
  std::pair<uint64_t, uint64_t> which() const { return which_; }
  // Throws Error{kUnavailable} where the file is shorter by now, or was not kept open and is
  // another.
  void read(uint64_t first, std::span<std::byte> to) const;
  // Over all of it; read once.
  std::string identity() const;

 private:
  std::string origin_;
  std::optional<runtime::RegularFile> file_;  // that is kept open
  std::pair<uint64_t, uint64_t> which_;
  uint64_t bytes_ = 0;
  uint64_t bytes_on_disk_ = 0;
  mutable std::once_flag summed_;
  mutable std::string identity_;
};

// The bytes that begin at `first` of a file, of elements of `in_file`; float16, bfloat16 and
// float64 are given as float32.
std::shared_ptr<const Contents> contents_in(const std::shared_ptr<const WeightFile>& file,
                                            uint64_t first, ops::DType in_file);
// The same of bytes in memory.
std::shared_ptr<const Contents> contents_of(std::string bytes, ops::DType in_file);
// What contents of a file's element type are given as.
ops::DType given_as(ops::DType in_file);

// All of a tensor. Throws Error{kUsage} above `most_bytes`, naming it.
ops::TensorLiteral literal_of(const std::string& name, const ops::ValueSpec& spec,
                              const Contents& contents, size_t most_bytes);

}  // namespace kerf::partitioner::onnx
