// Data sets of pictures in folders: the name of a picture's folder is its class.
//
//   FOLDER/train/CLASS/*.png, FOLDER/test/CLASS/*.png   test may be called val
//   FOLDER/CLASS/*.png                                  every tenth of a class is for tests
//
// PNG and JPEG (.png .jpg .jpeg, in either case), classes and pictures in the order of their names;
// what begins with a dot is passed over. Where weights are told by which classes they were trained,
// those are the classes, in that order.
// A picture becomes [CHANNELS, HEIGHT, WIDTH] of the model's size, bilinear and without cropping.
// Normalised are three channels as ImageNet's are by PyTorch's models, (x / 255 - mean) / deviation
// with means 0.485 0.456 0.406 and deviations 0.229 0.224 0.225; one, with 0.5 and 0.5. Pictures
// stay in their files. Immutable; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "schedmp/dataset.h"

namespace kerf::apps {

class ImageFolder : public schedmp::Dataset {
 public:
  // "CHANNELSxHEIGHTxWIDTH:FOLDER". Throws Error{kUsage} that names the folder or what is missing.
  ImageFolder(const std::string& sizes_and_folder, schedmp::Split split,
              const schedmp::DataRequest& request = {});

  int64_t rows() const override { return static_cast<int64_t>(pictures_.size()); }
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  bool has_own(std::string_view /*name*/) const override { return false; }
  int64_t classes() const override { return static_cast<int64_t>(classes_.size()); }
  bool classes_are_all() const override { return true; }
  schedmp::Numbering numbering() const override { return {"classes", classes_}; }
  // Over names and sizes of all files.
  std::string fingerprint() const override;
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  bool loads_ahead() const override { return true; }
  // Of the list of files.
  int64_t held_bytes() const override;

 private:
  struct File {  // of which there are millions: a path takes ten times as much
    std::string name;
    uint64_t bytes = 0;
    uint32_t label = 0;
  };
  void list(const std::filesystem::path& folder, schedmp::Split split, bool holds_out,
            const schedmp::Working& working);
  // By the folder's name. Throws Error{kUsage} where there is none.
  int64_t class_of(const std::filesystem::path& folder) const;
  std::filesystem::path within(const File& file) const;  // the folder
  void read_picture(const File& file, float* to) const;

  int64_t channels_ = 3;
  int64_t height_ = 0;
  int64_t width_ = 0;
  std::filesystem::path folder_;
  std::filesystem::path part_;  // of it, "train"; empty where it is not divided
  std::vector<std::string> classes_;
  bool known_ = false;  // they are those of the weights
  std::vector<File> pictures_;
};

}  // namespace kerf::apps
