#include "apps/data/fashion_mnist.h"

#include "apps/data/idx.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr double kMean = 0.2860;
constexpr double kDeviation = 0.3530;

std::filesystem::path file_of(const std::filesystem::path& folder, schedmp::Split split,
                              const char* what) {
  if (!std::filesystem::is_directory(folder))
    throw Error(
        ErrorCode::kUsage,
        "there is no such folder; apt-get install dataset-fashion-mnist brings the data, or "
        "--data fashion-mnist:FOLDER names where it is",
        folder.string());
  return folder /
         format("{}-{}-ubyte.gz", split == schedmp::Split::kTrain ? "train" : "t10k", what);
}

GzipFile open_file(const std::filesystem::path& folder, schedmp::Split split, const char* what) {
  return {file_of(folder, split, what),
          folder == FashionMnist::kFolder
              ? "apt-get install --reinstall dataset-fashion-mnist brings it anew"
              : "copy it anew"};
}

}  // namespace

FashionMnist::FashionMnist(const std::filesystem::path& folder, schedmp::Split split)
    : images_(open_file(folder, split, "images-idx3")) {
  const std::string images = images_.path().string();
  const IdxHeader header = parse_idx_header(images_.head(idx_header_bytes(3)), 3, images);
  if (header.extents[1] != 28 || header.extents[2] != 28)
    throw Error(ErrorCode::kUsage,
                format("expected images of 28x28 pixels, found {}x{}", header.extents[1],
                       header.extents[2]),
                images);
  bytes_ = header.file_bytes();
  // Its claim contradicts its header: finds out, and says, how.
  if (images_.size() != bytes_) images_.inflate(bytes_);
  rows_ = header.extents[0];
  features_ = header.extents[1] * header.extents[2];

  const GzipFile labels = open_file(folder, split, "labels-idx1");
  const std::string name = labels.path().string();
  const IdxHeader label_header = parse_idx_header(labels.head(idx_header_bytes(1)), 1, name);
  const std::vector<uint8_t> bytes = labels.inflate(label_header.file_bytes());
  if (label_header.extents[0] != rows_)
    throw Error(ErrorCode::kUsage,
                format("expected {} labels, one for each image of {}, found {}", rows_, images,
                       label_header.extents[0]),
                name);
  labels_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(label_header.bytes()), bytes.end());
  for (size_t row = 0; row < labels_.size(); ++row)
    if (labels_[row] >= classes())
      throw Error(ErrorCode::kUsage,
                  format("label {} is {}; expected 0 to {}", row, labels_[row], classes() - 1),
                  name);
  labels_checksum_ = labels.checksum();
  held_ = static_cast<int64_t>(images_.compressed_bytes() + labels_.size());
  for (size_t i = 0; i < value_of_.size(); ++i)
    value_of_[i] = static_cast<float>((static_cast<double>(i) / 255.0 - kMean) / kDeviation);
}

std::string FashionMnist::fingerprint() const {
  return format("fashion-mnist {}x{} {:08x} {:08x}", rows_, features_, images_.checksum(),
                labels_checksum_);
}

void FashionMnist::prepare() const {
  std::call_once(inflate_once_, [this] {
    pixels_ = images_.inflate(bytes_);
    held_ += static_cast<int64_t>(pixels_.size());
  });
}

void FashionMnist::read_features(std::span<const int64_t> rows, const ops::TensorView& to) const {
  prepare();
  KERF_CHECK(to.dtype == ops::DType::kFloat32 &&
             to.elements() == static_cast<int64_t>(rows.size()) * features_);
  const uint8_t* first = pixels_.data() + idx_header_bytes(3);
  float* out = to.f32();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    const uint8_t* in = first + row * features_;
    for (int64_t i = 0; i < features_; ++i) *out++ = value_of_[in[i]];
  }
}

void FashionMnist::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kInt64 && to.elements() == static_cast<int64_t>(rows.size()));
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    *out++ = labels_[static_cast<size_t>(row)];
  }
}

}  // namespace kerf::apps
