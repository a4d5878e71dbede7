#include "apps/data/idx_folder.h"

#include <algorithm>

#include "apps/data/idx.h"
#include "apps/data/inflated_bytes.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

std::shared_ptr<const ByteSource> open_idx(const fs::path& folder, schedmp::Split split,
                                           const char* what, const Working& working) {
  const fs::path plain =
      folder / format("{}-{}-ubyte", split == schedmp::Split::kTrain ? "train" : "t10k", what);
  std::error_code unknown;
  if (fs::exists(plain, unknown)) return std::make_shared<FileBytes>(plain, working);
  return open_gzip(std::make_shared<FileBytes>(plain.string() + ".gz", working));
}

IdxHeader header_of(const ByteSource& file, int rank) {
  const std::string head = read_text(file, 0, std::min(file.size(), idx_header_bytes(rank)));
  IdxHeader header = parse_idx_header({reinterpret_cast<const uint8_t*>(head.data()), head.size()},
                                      rank, file.origin());
  if (file.size() != header.file_bytes())
    throw Error(ErrorCode::kUsage,
                format("it is truncated or damaged: its header announces {} bytes, found {}; copy "
                       "it anew",
                       header.file_bytes(), file.size()),
                file.origin());
  return header;
}

}  // namespace

IdxFolder::IdxFolder(const fs::path& folder, schedmp::Split split, const IdxKind& kind,
                     const Working& working)
    : IdxFolder{open_idx(folder, split, "images-idx3", working),
                open_idx(folder, split, "labels-idx1", working), kind} {}

IdxFolder::IdxFolder(std::shared_ptr<const ByteSource> images,
                     const std::shared_ptr<const ByteSource>& labels, const IdxKind& kind)
    : kind_(kind.name), images_(std::move(images)) {
  const IdxHeader header = header_of(*images_, 3);
  header_ = header.bytes();
  rows_ = header.extents[0];
  features_ = header.extents[1] * header.extents[2];
  if (kind.side != 0 && (header.extents[1] != kind.side || header.extents[2] != kind.side))
    throw Error(ErrorCode::kUsage,
                format("expected images of {}x{} pixels, found {}x{}", kind.side, kind.side,
                       header.extents[1], header.extents[2]),
                images_->origin());
  read_all_labels(*labels, kind);
  for (size_t i = 0; i < value_of_.size(); ++i)
    value_of_[i] = static_cast<float>((static_cast<double>(i) / 255 - kind.mean) / kind.deviation);
}

void IdxFolder::read_all_labels(const ByteSource& labels, const IdxKind& kind) {
  const IdxHeader header = header_of(labels, 1);
  if (header.extents[0] != rows_)
    throw Error(ErrorCode::kUsage,
                format("expected {} labels, one for each image of {}, found {}", rows_,
                       images_->origin(), header.extents[0]),
                labels.origin());
  labels_.resize(static_cast<size_t>(rows_));
  labels.read(header.bytes(), labels_);
  labels_checksum_ = labels.checksum();
  const auto most = std::max_element(labels_.begin(), labels_.end());
  const int64_t occur = static_cast<int64_t>(*most) + 1;
  if (kind.classes != 0 && occur > kind.classes)
    throw Error(ErrorCode::kUsage,
                format("label {} is {}; expected 0 to {}", most - labels_.begin(), occur - 1,
                       kind.classes - 1),
                labels.origin());
  classes_are_all_ = kind.classes != 0;
  classes_ = classes_are_all_ ? kind.classes : occur;
}

std::string IdxFolder::fingerprint() const {
  return format("{} {}x{} {:08x} {:08x}", kind_, rows_, features_, images_->checksum(),
                labels_checksum_);
}

void IdxFolder::read_features(std::span<const int64_t> rows, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kFloat32 && to.elements() == std::ssize(rows) * features_);
  std::vector<std::byte> pixels(static_cast<size_t>(features_));
  float* out = to.f32();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    images_->read(header_ + static_cast<size_t>(row * features_), pixels);
    for (const std::byte pixel : pixels) *out++ = value_of_[static_cast<size_t>(pixel)];
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
