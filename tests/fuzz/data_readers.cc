#include "tests/fuzz/data_readers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "apps/classifier/linear_model.h"
#include "apps/data/array_rows.h"
#include "apps/data/corpus.h"
#include "apps/data/csc_arrays.h"
#include "apps/data/idx_folder.h"
#include "apps/data/inflated_bytes.h"
#include "apps/data/libsvm.h"
#include "apps/data/matrix_market.h"
#include "apps/data/npy.h"
#include "apps/data/picture.h"
#include "apps/data/text_rows.h"
#include "apps/data/zip.h"
#include "runtime/error.h"
#include "tests/apps/gzip.h"

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

void read_last_image(const apps::IdxFolder& data) {
  std::vector<float> values(static_cast<size_t>(data.features()));
  data.read_features(
      std::vector<int64_t>{data.rows() - 1},
      {ops::DType::kFloat32, {1, data.features()}, reinterpret_cast<std::byte*>(values.data())});
}

void read_row_of(const apps::TextRows& text, int64_t length) {
  std::vector<int64_t> row(static_cast<size_t>(length));
  const ops::TensorView to{
      ops::DType::kInt64, {1, length}, reinterpret_cast<std::byte*>(row.data())};
  text.read_labels(std::vector<int64_t>{text.rows() - 1}, to);
  text.read_input("tokens", std::vector<int64_t>{0}, to);
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

void read_rows(const std::string& bytes) {
  for (const auto split : {schedmp::Split::kTrain, schedmp::Split::kTest}) {
    const apps::ArrayRows data(apps::arrays_of_archive(bytes_in_memory(bytes)), split);
    data.classes();
    const auto spec = data.input("x");
    if (!spec) continue;
    const ops::Shape row = spec->shape.with_batch(1);
    std::vector<std::byte> to(static_cast<size_t>(row.elements()) * ops::size_of(spec->dtype));
    data.read_input("x", std::vector<int64_t>{data.rows() - 1}, {spec->dtype, row, to.data()});
  }
}

void read_idx_file(const std::string& bytes) {
  const auto file = bytes_in_memory(bytes);
  const auto images = bytes_in_memory(idx_header(0x00000803, {4, 6, 6}) + std::string(144, 'p'));
  const auto labels = bytes_in_memory(idx_header(0x00000801, {4}) + std::string("\0\1\2\3", 4));
  std::optional<Error> refused;
  bool taken = false;
  const auto attempt = [&](const auto& open) {
    try {
      read_last_image(open());
      taken = true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      if (!refused) refused = error;
    }
  };
  attempt([&] { return apps::IdxFolder(file, labels); });
  attempt([&] { return apps::IdxFolder(apps::open_gzip(file), labels, apps::kFashionMnist); });
  attempt([&] { return apps::IdxFolder(images, file); });
  if (!taken) throw Error(*refused);
}

void read_bytes_of_text(const std::string& bytes) {
  read_row_of(apps::TextRows(bytes_in_memory(bytes), 12, schedmp::Split::kTest), 12);
}

void read_words_of_text(const std::string& bytes) {
  const auto words = std::make_shared<apps::Words>(bytes_in_memory(bytes), 4);
  read_row_of(apps::TextRows(words, 3, 4, schedmp::Split::kTrain), 3);
}

void read_matrix_text(const std::string& bytes) {
  const auto file = bytes_in_memory(bytes);
  const apps::MatrixSize size = apps::read_matrix_market_size(*file);
  apps::read_matrix_market(*file, {0, size.rows});
  if (size.columns == 1) apps::read_dense_column(*file);
}

void read_csc(const std::string& bytes) {
  const auto file = bytes_in_memory(bytes);
  apps::read_csc_arrays(file, {0, apps::read_csc_size(file).rows});
}

void read_dense_array(const std::string& bytes) { apps::read_column_array(bytes_in_memory(bytes)); }

void read_labelled_rows(const std::string& bytes) {
  apps::read_libsvm(*bytes_in_memory(bytes));
  apps::read_libsvm_labels(*bytes_in_memory(bytes));
}

void read_classifier(const std::string& bytes) { apps::read_linear_model(*bytes_in_memory(bytes)); }

void read_documents_of_words(const std::string& bytes) {
  const auto file = bytes_in_memory(bytes);
  const auto words = std::ssize(apps::count_tokens(*file).of_words);
  if (words > 0) apps::read_documents(*file, words, {0, INT64_MAX});
}

}  // namespace kerf::tests
