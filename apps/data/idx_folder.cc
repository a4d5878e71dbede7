#include "apps/data/idx_folder.h"

#include <algorithm>

#include "apps/data/idx.h"
#include "apps/data/inflated_bytes.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

std::shared_ptr<const ByteSource> open_idx(const fs::path& folder, schedmp::Split split,
                                           const char* what) {
  const fs::path plain =
      folder / format("{}-{}-ubyte", split == schedmp::Split::kTrain ? "train" : "t10k", what);
  if (fs::exists(plain)) return std::make_shared<FileBytes>(plain);
  return open_gzip(std::make_shared<FileBytes>(plain.string() + ".gz"));
}

IdxHeader header_of(const ByteSource& file, int rank) {
  const std::string head = read_text(file, 0, std::min(file.size(), idx_header_bytes(rank)));
  const IdxHeader header = parse_idx_header(
      {reinterpret_cast<const uint8_t*>(head.data()), head.size()}, rank, file.origin());
  if (file.size() != header.file_bytes())
    throw Error(ErrorCode::kUsage,
                format("its header announces {} bytes, found {}", header.file_bytes(), file.size()),
                file.origin());
  return header;
}

}  // namespace

IdxFolder::IdxFolder(const fs::path& folder, schedmp::Split split)
    : IdxFolder{open_idx(folder, split, "images-idx3"), open_idx(folder, split, "labels-idx1")} {}

IdxFolder::IdxFolder(std::shared_ptr<const ByteSource> images,
                     std::shared_ptr<const ByteSource> labels)
    : images_(std::move(images)) {
  const IdxHeader header = header_of(*images_, 3);
  header_ = header.bytes();
  rows_ = header.extents[0];
  features_ = header.extents[1] * header.extents[2];
  const IdxHeader of_labels = header_of(*labels, 1);
  if (of_labels.extents[0] != rows_)
    throw Error(ErrorCode::kUsage,
                format("expected {} labels, one for each image of {}, found {}", rows_,
                       images_->origin(), of_labels.extents[0]),
                labels->origin());
  labels_.resize(static_cast<size_t>(rows_));
  labels->read(of_labels.bytes(), labels_);
  labels_checksum_ = labels->checksum();
  classes_ = static_cast<int64_t>(*std::max_element(labels_.begin(), labels_.end())) + 1;
}

std::string IdxFolder::fingerprint() const {
  return format("idx {}x{} {:08x} {:08x}", rows_, features_, images_->checksum(), labels_checksum_);
}

void IdxFolder::read_features(std::span<const int64_t> rows, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kFloat32 && to.elements() == std::ssize(rows) * features_);
  std::vector<std::byte> pixels(static_cast<size_t>(features_));
  float* out = to.f32();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    images_->read(header_ + static_cast<size_t>(row * features_), pixels);
    for (const std::byte pixel : pixels)
      *out++ = (static_cast<float>(pixel) / 255.0F - 0.5F) / 0.5F;
  }
}

void IdxFolder::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kInt64 && to.elements() == std::ssize(rows));
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    *out++ = static_cast<int64_t>(labels_[static_cast<size_t>(row)]);
  }
}

}  // namespace kerf::apps
