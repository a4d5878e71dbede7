// The layer cut whose fullest stage takes least, whatever its bottleneck: what nodes hold, which
// the search knows, is most of it; the rest shows on the finished division, and is much the same
// on the next one.
//
// Borrows what it is given; used by one thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {

// Bytes that each stage takes in all; where the fullest takes more than `most`, no less than these
// may do.
using PeaksOfStages = std::function<std::vector<double>(const LayerDivision&, double most)>;

// Of the divisions that are looked at: all, where they are few; else `first` (if there is one),
// those whose stages hold least together with what each took beyond that the last time, and the
// best of these with units shifted from stage to stage. Looks at no more once one takes at most
// `enough` bytes. None if there is none. Goes by the search's own limits; calls `peaks` once for
// each division.
std::optional<LayerDivision> least_peak(const LayerSearch& search,
                                        const std::optional<LayerDivision>& first,
                                        const PeaksOfStages& peaks, double enough);

}  // namespace kerf::partitioner
