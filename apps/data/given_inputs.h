// Inputs that a person gives, an array of NumPy for each: rows without labels.
//
// By a name that is a JSON object: {"image": "/data/x.npy"}. Numbers of float16, bfloat16 and
// float64 are given as float32, which models have. Immutable; thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/data/array_column.h"
#include "partitioner/model.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

class GivenInputs final : public schedmp::Dataset {
 public:
  // Throws Error{kUsage} that names the file at fault; all have the same number of rows.
  explicit GivenInputs(const std::string& name, const schedmp::DataRequest& request = {});

  int64_t rows() const override { return rows_; }
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  int64_t classes() const override { return 0; }
  std::string fingerprint() const override;
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  // There are none: throws Error{kUsage}.
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;

 private:
  int64_t rows_ = 0;
  std::map<std::string, ArrayColumn, std::less<>> columns_;
  std::map<std::string, schedmp::InputNeed, std::less<>> needs_;
};

// Of NAME=FILE as flags have them, with absolute paths. Throws Error{kUsage} at `flag`, also for
// what is no input of the model, and for an input that none is given for.
std::string given_inputs_name(const std::vector<std::string>& inputs,
                              const partitioner::Model& model, const std::string& flag);
bool names_given_inputs(const std::string& name);

}  // namespace kerf::apps
