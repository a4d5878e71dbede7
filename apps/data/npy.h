// NumPy's .npy files: a header that is a Python literal, then the elements.
//
//   0   93 'N' 'U' 'M' 'P' 'Y'  MAJOR MINOR
//   8   bytes of the header: 2 (version 1) or 4 (versions 2 and 3), little-endian
//   ..  {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }, spaces, a line's end
//   ..  the elements
//
// Taken are little-endian elements in C order, of any of our types. NumPy has no name for bfloat16;
// like its extensions for machine learning, we write two bytes without meaning ('<V2').
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
// Everything in a file is checked. NpyArray is thread-safe; an NpyWriter has one owner.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/data/byte_source.h"
#include "ops/tensor.h"
#include "runtime/file.h"

namespace kerf::apps {

struct NpyHeader {
  ops::DType dtype = ops::DType::kFloat32;
  std::vector<int64_t> extents;  // any number of them, 0 among them too
  size_t bytes = 0;              // of the header, where the elements begin

  int64_t elements() const;
  // Throws Error{kUsage} at `origin` for more axes than a tensor may have.
  ops::Shape shape(const std::string& origin) const;
};

// The head of a file that begins with `head`. Throws Error{kUsage} that names `origin`; of at most
// 2^62 bytes of elements.
NpyHeader parse_npy_header(std::string_view head, const std::string& origin);
std::string npy_header(ops::DType dtype, std::span<const int64_t> extents);

// An array that stays where it is, read in pieces.
class NpyArray {
 public:
  // Throws Error{kUsage} that names the source unless it holds exactly what its header says.
  explicit NpyArray(std::shared_ptr<const ByteSource> source);
  explicit NpyArray(const std::filesystem::path& path);

  const NpyHeader& header() const { return header_; }
  const ByteSource& source() const { return *source_; }
  // Elements [first, first + count) as they are, of count * size_of(dtype) bytes.
  void read(int64_t first, int64_t count, std::byte* to) const;

 private:
  std::shared_ptr<const ByteSource> source_;
  NpyHeader header_;
};

// A file that grows by elements in order; nothing is left of it without commit().
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& path, ops::DType dtype, std::span<const int64_t> extents);
  void write(std::span<const std::byte> elements);
  // All elements must have been written.
  void commit();

 private:
  runtime::AtomicFile file_;
  size_t missing_;  // bytes
};

// All of a tensor of the host at once.
void write_npy(const std::filesystem::path& path, const ops::TensorView& tensor);

}  // namespace kerf::apps
