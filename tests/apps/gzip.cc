#include "tests/apps/gzip.h"

#include <zlib.h>

#include <stdexcept>

namespace kerf::tests {

void write_gzip(const std::filesystem::path& path, const std::string& contents) {
  gzFile file = ::gzopen(path.c_str(), "wb");
  if (file == nullptr ||
      ::gzwrite(file, contents.data(), static_cast<unsigned>(contents.size())) !=
          static_cast<int>(contents.size()) ||
      ::gzclose(file) != Z_OK)
    throw std::runtime_error("cannot write " + path.string());
}

std::string stored_zip(const std::map<std::string, std::string>& members) {
  const auto number = [](size_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 0xff);
    return text;
  };
  std::string archive;
  std::string directory;
  for (const auto& [name, contents] : members) {
    const size_t sum = ::crc32(0, reinterpret_cast<const Bytef*>(contents.data()),
                               static_cast<uInt>(contents.size()));
    // A version, no flags, stored, no time.
    const std::string facts = number(20, 2) + std::string(8, '\0') + number(sum, 4) +
                              number(contents.size(), 4) + number(contents.size(), 4) +
                              number(name.size(), 2) + number(0, 2);
    directory +=
        "PK\1\2" + number(20, 2) + facts + std::string(10, '\0') + number(archive.size(), 4) + name;
    archive += "PK\3\4" + facts + name + contents;
  }
  return archive + directory + "PK\5\6" + number(0, 4) + number(members.size(), 2) +
         number(members.size(), 2) + number(directory.size(), 4) + number(archive.size(), 4) +
         number(0, 2);
}

std::string idx_header(uint32_t magic, const std::vector<uint32_t>& extents) {
  std::string bytes;
  const auto put = [&](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  };
  put(magic);
  for (const uint32_t extent : extents) put(extent);
  return bytes;
}

void write_fashion_mnist(const std::filesystem::path& folder, int rows, int side) {
  const auto count = static_cast<uint32_t>(rows);
  const auto extent = static_cast<uint32_t>(side);
  std::string images = idx_header(0x00000803, {count, extent, extent});
  for (int i = 0; i < rows * side * side; ++i) images += static_cast<char>(i % 251);
  std::string labels = idx_header(0x00000801, {count});
  for (int i = 0; i < rows; ++i) labels += static_cast<char>(i % 10);
  for (const char* split : {"train", "t10k"}) {
    write_gzip(folder / (std::string(split) + "-images-idx3-ubyte.gz"), images);
    write_gzip(folder / (std::string(split) + "-labels-idx1-ubyte.gz"), labels);
  }
}

}  // namespace kerf::tests
