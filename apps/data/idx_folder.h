// Data sets of IDX files under the names of MNIST, gzipped or plain:
//
//   train-images-idx3-ubyte[.gz]  train-labels-idx1-ubyte[.gz]  t10k-images-...  t10k-labels-...
//
// A pixel becomes (x / 255 - 0.5) / 0.5. Images of a plain file are read in pieces; those of a
// gzipped one lie in memory, as bytes, once one is read. Thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "apps/data/byte_source.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

class IdxFolder : public schedmp::FeatureRows {
 public:
  // Throws Error{kUsage} that names the file and what was expected of it.
  IdxFolder(const std::filesystem::path& folder, schedmp::Split split);
  // Of the contents of two such files.
  IdxFolder(std::shared_ptr<const ByteSource> images, std::shared_ptr<const ByteSource> labels);

  int64_t rows() const override { return rows_; }
  int64_t features() const override { return features_; }
  int64_t classes() const override { return classes_; }
  std::string fingerprint() const override;
  void prepare() const override { images_->prepare(); }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  int64_t held_bytes() const override {
    return images_->held_bytes() + static_cast<int64_t>(labels_.size());
  }

 private:
  std::shared_ptr<const ByteSource> images_;
  size_t header_ = 0;  // bytes before the pixels
  uint32_t labels_checksum_ = 0;
  int64_t rows_ = 0;
  int64_t features_ = 0;
  int64_t classes_ = 0;
  std::vector<std::byte> labels_;
};

}  // namespace kerf::apps
