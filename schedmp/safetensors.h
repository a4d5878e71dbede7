// safetensors files: 8 bytes of little-endian header length, a JSON header, raw tensors.
//
// Reading is strict: duplicate names, holes, overlaps, wrong sizes and trailing bytes are refused
// with an error that names the file and the tensor. A reader and a writer hold nothing but what is
// read or written at a time, so that a tensor may be larger than memory. Each is used by one
// thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/tensor.h"
#include "runtime/file.h"
#include "runtime/json.h"

namespace kerf::schedmp {

struct NamedSpec {
  std::string name;
  ops::ValueSpec spec;
};

struct NamedTensor {
  std::string name;
  ops::DType dtype = ops::DType::kFloat32;
  ops::Shape shape;
  std::string bytes;
};

// Consecutive indices of a tensor's first axis; the one row 0 of a scalar.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const RowRange&) const = default;
};

class SafetensorsReader {
 public:
  // Reads and checks the header; no tensor is read.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::string& origin() const { return origin_; }
  const std::vector<NamedSpec>& tensors() const { return tensors_; }
  // Null if there is none of this name.
  const ops::ValueSpec* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Its bytes. Throws Error{kUsage} naming the file if there is none of this name or it is not of
  // `spec`.
  std::string read(const std::string& name, const ops::ValueSpec& spec);
  // The same of some of its rows, or of some indices of another axis.
  std::string read(const std::string& name, const ops::ValueSpec& spec, const RowRange& rows,
                   int axis = 0);
  // The same of `count` elements from `first` on, row-major.
  std::string read_elements(const std::string& name, const ops::ValueSpec& spec, int64_t first,
                            int64_t count);

 private:
  // Where a tensor's bytes lie behind the header.
  struct Extent {
    size_t begin = 0;
    size_t end = 0;
  };

  std::string read_header();
  Extent parse_extent(const Json& entry, const std::string& where) const;
  void read_metadata(const Json& metadata);
  Extent extent_of(const std::string& name, const ops::ValueSpec& spec) const;
  std::string take(size_t begin, size_t end);
  void check_cover() const;
  void take(char* to, size_t bytes);
  [[noreturn]] void refuse(const std::string& why) const;

  std::string origin_;
  std::ifstream file_;
  size_t data_begin_ = 0;
  size_t data_bytes_ = 0;
  std::vector<NamedSpec> tensors_;
  std::vector<Extent> extents_;
  std::unordered_map<std::string, size_t> numbers_;  // by name
  std::map<std::string, std::string> metadata_;
};

// Atomic: without commit() nothing is left.
class SafetensorsWriter {
 public:
  // `metadata` values are strings, as the format demands.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<NamedSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

  // The next bytes, tensor by tensor in the order in which they were named; none go from one tensor
  // into the next.
  void write(std::string_view bytes);
  void commit();

 private:
  runtime::AtomicFile file_;
  std::vector<size_t> sizes_;
  size_t next_ = 0;     // tensor
  size_t written_ = 0;  // of its bytes
};

// All of a file at once.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path);

}  // namespace kerf::schedmp
