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
