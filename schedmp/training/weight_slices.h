// Weights go to files and come from them in slices, a megabyte at a time however large a tensor is:
// a worker holds its shares, and beside them a slice.
//
// A slice is some consecutive indices of a tensor's first axis; what a share has of it are
// consecutive indices of the share's. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/layout.h"
#include "schedmp/safetensors.h"

namespace kerf::schedmp {

inline constexpr size_t kSliceBytes = size_t{1} << 20;

// They cover the tensor in order; each of `most_bytes` at most, or of one index.
std::vector<ops::Box> slices_of(const ops::ValueSpec& spec, size_t most_bytes = kSliceBytes);

// Some consecutive indices of an axis of a tensor of that shape, all of the others.
ops::Box slice_of_rows(const ops::Shape& shape, const RowRange& rows, int axis = 0);

// Where `piece`, a slice of `share`, lies in the dense tensor that holds the share; `shape`: the
// whole tensor's. Slices of another axis than the first lie along that one.
RowRange rows_of(const ops::Box& piece, const ops::Box& share, const ops::Shape& shape,
                 int axis = 0);

// Of the indices of a set those of these numbers, ascending from 0.
ops::IndexSet indices_of(const ops::IndexSet& set, int64_t extent, ops::Range numbers);

}  // namespace kerf::schedmp
