// Numbers of the host as slices of checkpoints (stored_slices.h): some of a tensor's elements in a
// row, as tables and pieces of vectors have them, which are boxes of the tensor. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/layout.h"
#include "partitioner/model.h"
#include "schedmp/training/stored_slices.h"

namespace kerf::schedmp {

// Of the dense elements of `held`, a box of a tensor of that shape, those in this range: boxes of
// the tensor whose dense elements, one box behind the other, are these. At most two for each axis,
// less one.
std::vector<ops::Box> boxes_of_elements(const ops::Box& held, const ops::Shape& shape,
                                        ops::Range elements);

// The numbers are those from element `first` of `held` on. They outlive `to`'s writing.
struct ElementsOf {
  const partitioner::Value& value;  // float32
  const ops::Box& held;
  int64_t first = 0;
};
void add_numbers(const std::string& kind, const ElementsOf& what, std::span<const float> numbers,
                 std::vector<StoredSlice>& to);
// Throws Error{kUsage} that names the file where the files lack some.
void read_numbers(StoredSlices& from, const std::string& kind, const ElementsOf& what,
                  std::span<float> numbers);

// A number that is the whole tensor's: how often it was updated, say.
void add_count(const std::string& kind, const partitioner::Value& value, int64_t count,
               std::vector<StoredSlice>& to);
// Throws Error{kUsage} that names the file where it is below 0, or in none.
int64_t read_count(StoredSlices& from, const std::string& kind, const partitioner::Value& value);

}  // namespace kerf::schedmp
