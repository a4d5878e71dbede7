// Data sets of IDX files under the names of MNIST, gzipped or plain:
//
//   train-images-idx3-ubyte[.gz]  train-labels-idx1-ubyte[.gz]  t10k-images-...  t10k-labels-...
//
// A pixel becomes (x / 255 - mean) / deviation. Images of a plain file are read in pieces; those of
// a gzipped one lie in memory, as bytes, once one is read: who needs none (the scheduler, a middle
// stage) pays nothing. Thread-safe.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/data/byte_source.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

// What is known of such files beforehand.
struct IdxKind {
  const char* name = "idx";
  double mean = 0.5;
  double deviation = 0.5;
  int64_t side = 0;     // pixels of an image, both ways; 0: as the file says
  int64_t classes = 0;  // 0: those that occur
};

// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017, arXiv:1708.07747): 60,000 + 10,000 images of 28x28
// grey pixels, by mean and deviation of the training set.
inline constexpr IdxKind kFashionMnist{"fashion-mnist", 0.2860, 0.3530, 28, 10};
// As the Debian package dataset-fashion-mnist installs it.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

class IdxFolder : public schedmp::FeatureRows {
 public:
  // Throws Error{kUsage} that names the file and what was expected of it.
  IdxFolder(const std::filesystem::path& folder, schedmp::Split split, const IdxKind& kind = {},
            const Working& working = {});
  // Of the contents of two such files.
  IdxFolder(std::shared_ptr<const ByteSource> images,
            const std::shared_ptr<const ByteSource>& labels, const IdxKind& kind = {});

  int64_t rows() const override { return rows_; }
  int64_t features() const override { return features_; }
  int64_t classes() const override { return classes_; }
  bool classes_are_all() const override { return classes_are_all_; }
  std::string fingerprint() const override;
  void prepare(std::span<const std::string> inputs) const override {
    if (!inputs.empty()) images_->prepare();
  }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  int64_t held_bytes() const override {
    return images_->held_bytes() + static_cast<int64_t>(labels_.size());
  }
  bool loads_ahead() const override { return images_->in_file(); }

 private:
  void read_all_labels(const ByteSource& labels, const IdxKind& kind);

  std::string kind_;
  std::shared_ptr<const ByteSource> images_;
  size_t header_ = 0;  // bytes before the pixels
  uint32_t labels_checksum_ = 0;
  int64_t rows_ = 0;
  int64_t features_ = 0;
  int64_t classes_ = 0;
  bool classes_are_all_ = false;
  std::vector<std::byte> labels_;
  std::array<float, 256> value_of_{};
};

}  // namespace kerf::apps
