#include "tests/apps/file_readers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/data/idx_folder.h"
#include "apps/data/inflated_bytes.h"
#include "apps/data/npy.h"
#include "apps/data/picture.h"
#include "apps/data/zip.h"
#include "runtime/error.h"

namespace kerf::tests {

namespace {

class BytesInMemory final : public apps::ByteSource {
 public:
  explicit BytesInMemory(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& origin() const override { return origin_; }
  size_t size() const override { return bytes_.size(); }
  void read(size_t offset, std::span<std::byte> to) const override {
    KERF_CHECK(offset <= bytes_.size() && to.size() <= bytes_.size() - offset, "beyond the end");
    std::copy_n(std::as_bytes(std::span(bytes_)).begin() + static_cast<std::ptrdiff_t>(offset),
                to.size(), to.begin());
  }
  uint32_t checksum() const override { return 7; }

 private:
  std::string origin_ = "the file";
  std::string bytes_;
};

void read_all(const apps::NpyArray& array) {
  std::vector<std::byte> all(static_cast<size_t>(array.header().elements()) *
                             ops::size_of(array.header().dtype));
  array.read(0, array.header().elements(), all.data());
}

}  // namespace

std::shared_ptr<const apps::ByteSource> bytes_in_memory(std::string bytes) {
  return std::make_shared<BytesInMemory>(std::move(bytes));
}

void read_npy(const std::string& bytes) { read_all(apps::NpyArray(bytes_in_memory(bytes))); }

void read_npz(const std::string& bytes) {
  const apps::ZipArchive archive(bytes_in_memory(bytes));
  for (const std::string& name : archive.names()) read_all(apps::NpyArray(archive.open(name)));
}

void read_gzip(const std::string& bytes) {
  const auto contents = apps::open_gzip(bytes_in_memory(bytes));
  apps::read_text(*contents, 0, contents->size());
}

void read_picture(const std::string& bytes) {
  for (const int64_t channels : {1, 3}) {
    const apps::Picture picture =
        apps::decode_picture(std::as_bytes(std::span(bytes)), channels, "the file");
    std::vector<float> small(static_cast<size_t>(channels) * 4 * 4);
    apps::resize_picture(picture, 4, 4, small.data());
  }
}

void read_idx(const std::string& images, const std::string& labels) {
  const apps::IdxFolder data(bytes_in_memory(images), bytes_in_memory(labels));
  std::vector<float> values(static_cast<size_t>(data.features()));
  const std::vector<int64_t> rows{data.rows() - 1};
  data.read_features(
      rows,
      {ops::DType::kFloat32, {1, data.features()}, reinterpret_cast<std::byte*>(values.data())});
}

}  // namespace kerf::tests
