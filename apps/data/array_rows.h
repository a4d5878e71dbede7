// Data sets of arrays as NumPy saves them: an .npz archive, or a folder of .npy files. The first
// axis of each array is the row.
//
//   NAME_train, NAME_test   of each split; NAME_val where there is no NAME_test
//   NAME                    for training where other names end in _test; where none ends so or in
//                           _train, its last tenth of rows is for tests
//
// NAME is the model's name for an input, or of a model with one input one of x, data, images,
// inputs; and label, or one of y, labels, target, targets, for labels: not what a model has for an
// input. Inputs become what the model reads, by value: whole numbers int64 or float32, others
// float32: whoever wants them normalised saves them so. Labels are whole numbers where they are
// classes, and any where the loss is of numbers. What else is there is not looked at; an array at
// fault is told to who asks for it.
//
// Arrays stay in their files and are read in pieces, but for compressed ones. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "apps/data/array_column.h"
#include "runtime/error.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

// Arrays by name, opened when they are asked for.
struct NamedArrays {
  std::string origin;  // the archive, or the folder
  std::vector<std::string> names;
  std::function<std::shared_ptr<const ByteSource>(const std::string& name)> open;
};
// Throw Error{kUsage} that names the path.
NamedArrays arrays_of_archive(const std::filesystem::path& file, const Working& working = {});
NamedArrays arrays_of_archive(std::shared_ptr<const ByteSource> file);
NamedArrays arrays_of_folder(const std::filesystem::path& folder, const Working& working = {});

class ArrayRows : public schedmp::Dataset {
 public:
  // Throws Error{kUsage} that names the names that there are, or the array at fault where no other
  // says how many rows there are.
  // `model`: whose inputs and labels they are to be; null: of any.
  ArrayRows(const NamedArrays& arrays, schedmp::Split split,
            const partitioner::Model* model = nullptr);

  int64_t rows() const override { return rows_; }
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  bool has_own(std::string_view name) const override { return columns_.contains(name); }
  ops::Shape labels() const override;
  int64_t classes() const override;
  std::optional<ops::Shape> targets() const override { return labels(); }
  std::string fingerprint() const override { return fingerprint_; }
  std::string offers() const override;
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  void prepare(std::span<const std::string> inputs) const override;
  int64_t held_bytes() const override;
  bool loads_ahead() const override { return true; }

 private:
  struct Column {
    std::shared_ptr<const ByteSource> source;
    std::optional<ArrayColumn> rows;
    std::optional<Error> fault;  // then it is no rows
  };
  static Column column_of(std::shared_ptr<const ByteSource> source);
  // The one by whose rows those of the data set count: labels, or else the first without fault.
  const Column& leading() const;
  // Whether a model could ask for an array of this name.
  bool is_wanted(std::string_view name) const;
  // The rows of this split, of arrays that hold both.
  void divide(bool whole, schedmp::Split split);
  // The only one of this split that has one of the names; null where none has.
  const Column* one_of(std::span<const std::string_view> names, std::string_view what) const;
  // Throw what is at fault with it.
  const ArrayColumn* input_column(std::string_view name) const;
  const Column* find_labels() const;
  const ArrayColumn& label_column() const;
  const ArrayColumn& sound(const Column& column) const;

  std::string origin_;
  std::map<std::string, schedmp::InputNeed, std::less<>> needs_;  // of the model; of any, none
  std::vector<std::string> passed_over_;                          // names that are of no split
  std::map<std::string, Column, std::less<>> columns_;
  int64_t rows_ = 0;
  int64_t first_ = 0;  // row of the arrays
  std::string fingerprint_;
  mutable std::once_flag classes_once_;
  mutable int64_t classes_ = 0;
};

}  // namespace kerf::apps
