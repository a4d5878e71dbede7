// Bytes that lie somewhere and are read in pieces: a file, or a stretch of one.
//
// Immutable after construction; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/regular_file.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

using schedmp::Working;

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // What errors name: "data.npz: x.npy".
  virtual const std::string& origin() const = 0;
  virtual size_t size() const = 0;
  // Bytes [offset, offset + to.size()), which must exist. Throws Error{kUsage} at origin() where
  // they cannot be read.
  virtual void read(size_t offset, std::span<std::byte> to) const = 0;
  // Over contents: all of them where that is cheap or known already, else over the length and
  // pieces spread evenly over the whole.
  virtual uint32_t checksum() const = 0;
  // Does now what the first read would do for all of them.
  virtual void prepare() const {}
  // Whether each read goes to a file.
  virtual bool in_file() const { return false; }
  // Of what lies in memory.
  virtual int64_t held_bytes() const { return 0; }
};

// A regular file, whose size is that when it was opened. What takes long in its bytes reads many
// pieces of them: each says `working`.
class FileBytes : public ByteSource {
 public:
  // Throws Error{kUsage} that names the path.
  explicit FileBytes(const std::filesystem::path& path, Working working = {});

  const std::string& origin() const override { return file_.origin(); }
  size_t size() const override { return file_.bytes(); }
  void read(size_t offset, std::span<std::byte> to) const override;
  uint32_t checksum() const override;
  bool in_file() const override { return true; }

 private:
  Working working_;
  runtime::RegularFile file_;
};

// A stretch of another source.
class StretchOfBytes : public ByteSource {
 public:
  // [offset, offset + size) must be in `whole`.
  StretchOfBytes(std::shared_ptr<const ByteSource> whole, size_t offset, size_t size,
                 std::string origin, uint32_t checksum);

  const std::string& origin() const override { return origin_; }
  size_t size() const override { return size_; }
  void read(size_t offset, std::span<std::byte> to) const override;
  uint32_t checksum() const override { return checksum_; }
  bool in_file() const override { return whole_->in_file(); }

 private:
  std::shared_ptr<const ByteSource> whole_;
  size_t offset_;
  size_t size_;
  std::string origin_;
  uint32_t checksum_;
};

// The bytes [offset, offset + size) as text. Throws Error{kUsage} at the origin where the source
// ends before.
std::string read_text(const ByteSource& source, size_t offset, size_t size);

}  // namespace kerf::apps
