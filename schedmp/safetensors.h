// safetensors files: 8 bytes of little-endian header length, a JSON header, raw tensors.
//
// Reading is strict: duplicate names, holes, overlaps, wrong sizes and trailing bytes are refused
// with an error that names the file and the tensor. A tensor of an element type that is not known
// here is refused where it is read. A reader and a writer hold nothing but what is read or written
// at a time, so that a tensor may be larger than memory. Each is used by one thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/tensor.h"
#include "runtime/json.h"
#include "runtime/store.h"

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

// Consecutive indices of an axis of a tensor; the one row 0 of a scalar.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const RowRange&) const = default;
};

// Whether a tensor of the first can be read as one of the second: float16, bfloat16 and float64 are
// given as float32 to who wants that.
bool reads_as(const ops::ValueSpec& stored, const ops::ValueSpec& wanted);

class SafetensorsReader {
 public:
  // Reads and checks the header; no tensor is read.
  explicit SafetensorsReader(std::unique_ptr<runtime::ReadableFile> file);
  // Of this host.
  explicit SafetensorsReader(const std::filesystem::path& path)
      : SafetensorsReader(runtime::LocalStore().open(path)) {}

  const std::string& origin() const { return origin_; }
  const std::vector<NamedSpec>& tensors() const { return tensors_; }
  // Null if there is none of this name, or it is not known what is in it.
  const ops::ValueSpec* find(const std::string& name) const;
  // Tensors that cannot be read, by name, and why: "dtype F8_E4M3 is not one of ...".
  const std::map<std::string, std::string>& unreadable() const { return unreadable_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Nothing is read between these two: who has many readers keeps few files open. Throws
  // Error{kUsage} naming the file where what was opened is not as long as it was.
  void close() { file_.reset(); }
  void open_again(std::unique_ptr<runtime::ReadableFile> file);
  // Its bytes. Throws Error{kUsage} naming the file if there is none of this name or it does not
  // read as `spec`.
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
  void read_entry(const std::string& name, const Json& entry);
  Extent parse_extent(const Json& entry, const std::string& where) const;
  void read_metadata(const Json& metadata);
  void check_cover() const;
  // Where the tensor is that reads as `spec`, and what it is.
  std::pair<Extent, ops::DType> stored_as(const std::string& name,
                                          const ops::ValueSpec& spec) const;
  std::string take(size_t begin, size_t end) const;
  std::string take_of_steps(const Extent& extent, size_t step, size_t first, size_t count) const;
  void take(size_t begin, std::span<char> to) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::unique_ptr<runtime::ReadableFile> file_;
  std::string origin_;
  size_t data_begin_ = 0;
  size_t data_bytes_ = 0;
  std::vector<NamedSpec> tensors_;
  std::vector<Extent> extents_;
  std::unordered_map<std::string, size_t> numbers_;  // by name
  std::vector<Extent> others_;                       // of what cannot be read
  std::map<std::string, std::string> unreadable_;
  std::map<std::string, std::string> metadata_;
};

using ByteSink = std::function<void(std::string_view)>;

// The bytes of a file, handed on as they come.
class SafetensorsStream {
 public:
  // `metadata` values are strings, as the format demands. Each name is there once, and none is
  // `__metadata__`. The header goes to `sink` at once.
  SafetensorsStream(ByteSink sink, const std::vector<NamedSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

  // The next bytes, tensor by tensor in the order in which they were named; none go from one tensor
  // into the next.
  void write(std::string_view bytes);
  // All were written.
  void finish() const;

 private:
  const ByteSink sink_;
  std::vector<size_t> sizes_;
  size_t next_ = 0;     // tensor
  size_t written_ = 0;  // of its bytes
};

// Atomic: without commit() nothing is left.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::unique_ptr<runtime::WritableFile> file,
                    const std::vector<NamedSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = {})
      : file_(std::move(file)),
        stream_([this](std::string_view bytes) { file_->write(bytes); }, tensors, metadata) {}
  // Of this host.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<NamedSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = {})
      : SafetensorsWriter(runtime::LocalStore().create(path), tensors, metadata) {}
  // Its stream writes into it.
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  void write(std::string_view bytes) { stream_.write(bytes); }
  void commit() {
    stream_.finish();
    file_->commit();
  }

 private:
  std::unique_ptr<runtime::WritableFile> file_;
  SafetensorsStream stream_;
};

// All of a file at once.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path);

}  // namespace kerf::schedmp
