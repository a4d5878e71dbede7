// Values that a model keeps, as files of weights have them (partitioner/stored_form.h): under
// PyTorch's names and with its axes. Used by one thread.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "partitioner/model.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/stored_names.h"

namespace kerf::schedmp {

// The tensors of a file that hold the value.
std::vector<NamedSpec> stored_tensors(const partitioner::Value& value);

// Reads them. Used by one thread.
class StoredWeights {
 public:
  // Reads and checks what is said of the tensors. Throws Error{kUsage} that names the file, as all
  // do.
  explicit StoredWeights(const std::filesystem::path& file) : file_(file), names_(file_) {}

  // Whether the file has the value, under the model's names or by the file's own map of names.
  bool has(const partitioner::Value& value) const;
  // The tensors of the file that hold the value, as the model or that map expects them.
  std::vector<NamedSpec> tensors_of(const partitioner::Value& value);
  // Indices `rows` of the value's first axis, dense; or all of it. What is derived and not in the
  // file is as the model has it.
  std::string read(const partitioner::Value& value, const RowRange& rows);
  std::string read(const partitioner::Value& value);

 private:
  const partitioner::StoredForm* form_of(const partitioner::Value& value);

  SafetensorsReader file_;
  StoredNames names_;
  std::map<std::string, partitioner::StoredForm> found_;  // by value, of what the map says
};

// The dense bytes of a slice of a value: some indices of one of its axes, all of the others.
using SliceOf = std::function<std::string(const RowRange& rows, int axis)>;
// Writes the value's tensors, in order. A value whose axes are turned is asked for in slices of
// some megabytes, one whose rows are in another order as a whole.
void write_stored(const partitioner::Value& value, const SliceOf& slice_of,
                  SafetensorsWriter& file);

}  // namespace kerf::schedmp
