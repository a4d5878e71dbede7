// Values that a model keeps, as files of weights have them (partitioner/stored_form.h): under
// PyTorch's names and with its axes. Used by one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "partitioner/model.h"
#include "schedmp/safetensors.h"

namespace kerf::schedmp {

// The tensors of a file that hold the value.
std::vector<NamedSpec> stored_tensors(const partitioner::Value& value);

// Indices `rows` of the value's first axis, dense; or all of it. Throws Error{kUsage} that names
// the file.
std::string read_stored(SafetensorsReader& file, const partitioner::Value& value,
                        const RowRange& rows);
std::string read_stored(SafetensorsReader& file, const partitioner::Value& value);

// The dense bytes of a slice of a value: some indices of one of its axes, all of the others.
using SliceOf = std::function<std::string(const RowRange& rows, int axis)>;
// Writes the value's tensors, in order. A value whose axes are turned is asked for in slices of
// some megabytes, one whose rows are in another order as a whole.
void write_stored(const partitioner::Value& value, const SliceOf& slice_of,
                  SafetensorsWriter& file);

}  // namespace kerf::schedmp
