// Data sets of arrays as NumPy saves them: an .npz archive, or a folder of .npy files. The first
// axis of each array is the row.
//
//   NAME_train, NAME_test   of each split; or NAME alone, whose last tenth of rows is for tests
//
// NAME is the model's name for an input, or one of x, data, images, inputs; and label, y, labels,
// targets, target for labels. Inputs become float32, or int64 where they are whole numbers of more
// than a byte, by value: whoever wants them normalised saves them so. Labels are whole numbers
// where they are classes, and any where the loss is of numbers.
//
// Arrays stay in their files and are read in pieces, but for compressed ones. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "apps/data/npy.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

// Arrays by name, opened when they are asked for.
struct NamedArrays {
  std::string origin;  // the archive, or the folder
  std::vector<std::string> names;
  std::function<std::shared_ptr<const ByteSource>(const std::string& name)> open;
};
// Throw Error{kUsage} that names the path.
NamedArrays arrays_of_archive(const std::filesystem::path& file);
NamedArrays arrays_of_folder(const std::filesystem::path& folder);

class ArrayRows : public schedmp::Dataset {
 public:
  // Throws Error{kUsage} that names the array at fault, or the names that there are.
  ArrayRows(const NamedArrays& arrays, schedmp::Split split);

  int64_t rows() const override { return rows_; }
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  ops::Shape labels() const override;
  int64_t classes() const override;
  std::optional<ops::Shape> targets() const override { return labels(); }
  std::string fingerprint() const override { return fingerprint_; }
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  void prepare() const override;
  int64_t held_bytes() const override;
  bool loads_ahead() const override { return true; }

 private:
  struct Column {
    NpyArray array;
    std::vector<int64_t> extents;  // of a row
    int64_t elements = 1;          // likewise
  };
  // What is of this split among the names; null where there is none of the name.
  const Column* column(std::string_view name) const;
  const Column* input_column(std::string_view name) const;
  const Column& label_column() const;
  void read(const Column& column, std::span<const int64_t> rows, const ops::TensorView& to) const;

  std::string origin_;
  std::map<std::string, Column, std::less<>> columns_;
  int64_t rows_ = 0;
  int64_t first_ = 0;  // row of the arrays
  std::string fingerprint_;
  mutable std::once_flag classes_once_;
  mutable int64_t classes_ = 0;
};

}  // namespace kerf::apps
