// Zip archives, as far as NumPy's .npz needs them: members that are stored or deflated, by the
// central directory; archives beyond 4 GiB too (zip64).
//
// PKWARE, APPNOTE.TXT 6.3. Everything in a file is checked. Immutable; thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/data/byte_source.h"

namespace kerf::apps {

class ZipArchive {
 public:
  // Reads the directory. Throws Error{kUsage} that names the source.
  explicit ZipArchive(std::shared_ptr<const ByteSource> file);

  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return members_.contains(name); }
  // The member's contents: "FILE: NAME" in errors. Throws Error{kUsage} where there is none.
  std::shared_ptr<const ByteSource> open(const std::string& name) const;

 private:
  struct Member {
    uint16_t method = 0;
    uint32_t checksum = 0;
    uint64_t compressed = 0;
    uint64_t size = 0;
    uint64_t header = 0;  // offset of the local header
  };
  void read_directory(uint64_t offset, uint64_t bytes, uint64_t count);

  std::shared_ptr<const ByteSource> file_;
  std::map<std::string, Member> members_;
};

}  // namespace kerf::apps
