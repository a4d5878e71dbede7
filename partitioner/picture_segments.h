// The segments of a picture: operators one by one where all can be read; else each stage as a
// segment, but one, which is opened: operator by operator, or, where those would be hundreds of
// boxes, in segments of several. A pure function.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/plan.h"

namespace kerf::partitioner {

// Operators of one stage that follow each other in model order. The graph of segments is acyclic,
// for that of stages is.
struct PictureSegment {
  int stage = 0;
  std::vector<NodeId> nodes;
};

struct PictureSegments {
  std::vector<PictureSegment> segments;  // by first operator
  std::vector<int> of_node;              // node -> segment
  std::optional<int> opened;             // the stage, where others are closed
};

// `open`: a stage of the plan; nothing: a stage of the worker that takes longest. Throws
// Error{kUsage} where the plan has no such stage, and where every operator is drawn anyway.
PictureSegments picture_segments(const Model& model, const Plan& plan, std::optional<int> open);

}  // namespace kerf::partitioner
