// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017, arXiv:1708.07747): 60,000 + 10,000 images of 28x28
// grey pixels, 10 classes, as the Debian package dataset-fashion-mnist installs it.
//
// A pixel becomes (x / 255 - 0.2860) / 0.3530: mean and deviation of the training set. Pixels stay
// bytes in memory. Opening reads the headers and labels; the images are inflated by
// prepare() or when the first one is read, so a process that needs none (the scheduler, a middle
// stage) pays nothing.
#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>

#include "apps/data/gzip_file.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

class FashionMnist : public schedmp::FeatureRows {
 public:
  static constexpr const char* kFolder = "/usr/share/datasets/fashion-mnist";

  // Throws Error{kUsage} that names the file and what was expected of it.
  FashionMnist(const std::filesystem::path& folder, schedmp::Split split);

  int64_t rows() const override { return rows_; }
  int64_t features() const override { return features_; }
  int64_t classes() const override { return 10; }
  std::string fingerprint() const override;
  void prepare() const override;
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  int64_t held_bytes() const override { return held_; }

 private:
  GzipFile images_;
  size_t bytes_ = 0;  // of the images' file, inflated
  uint32_t labels_checksum_ = 0;
  int64_t rows_ = 0;
  int64_t features_ = 0;
  std::vector<uint8_t> labels_;
  std::array<float, 256> value_of_{};
  mutable std::once_flag inflate_once_;
  mutable std::vector<uint8_t> pixels_;    // with the header
  mutable std::atomic<int64_t> held_ = 0;  // bytes of files, as they are and inflated
};

}  // namespace kerf::apps
