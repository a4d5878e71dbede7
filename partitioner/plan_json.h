// A plan as JSON: what write_plan writes and read_plan reads, without the text around it.
//
//   {"kerf_plan": 1, "model": ..., "fingerprint": ..., "cut": ..., "batch": 64,
//    "micro_batches": 8, or [32, 16, 8, 8]: the rows of each, "batch" together,
//    "schedule": ...,
//    "request": {"source": ..., "memory": ..., "objective": "time", "slots": 2, "mirrored": false,
//                "exported": true where slots are a GPU's blocks, "optimizer_states": 1, "threads":
//                1, "momentum": 0.9, "optimizer": "sgd"},
//    "rewrites": [{"rewrite": "split-cross-entropy", "node": "loss", "numbers": [0, 4, 10]}],
//    "binding": [worker of part 0, ...],
//    "stages":  [{"parts": [0], "nodes": ["conv1", ...]}, ...],
//    "layouts": {"fc1.weight": [{"part": 0, "box": ["0-127", "all"]}, ...], ...},
//    "divisions": {"fc2": [{"part": 0, "box": ["all", "all", "0-99"]}, ...], ...},  where they do
//                 not follow from the layout of the node's first output
//    "routes":  [{"value": "relu1.output", "direction": "forward", "from": 0, "to": 1,
//                 "pieces": [{"box": "all"}]}, ...],  "leg": "reduce-scatter" or "all-gather"
//                 where it is part of a sum in slices (sums.h); and those of "the step vector",
//                 whose boxes are of its entries (step_vector.h)
//    "workers": [{"worker": 0, "forward_flops": ..., ...}, ...],  "peak_bytes" where the plan was
//                 made, of which "tensor_bytes" are the same everywhere
//    "bottleneck": ..., "bound": ..., "checksum": "16 hexadecimal digits"}
//
// A box is "all", or one index set per axis. "checksum" is over all that the plan says; who edits a
// plan by hand removes that line, and "workers" and "bottleneck" where they no longer hold: figures
// that no checksum vouches for are compared with fresh ones.
//
// "rewrites" (rewrite.h) are those that made the model of what its source names; the rest speaks of
// the pieces. "request" and any of its members may be absent. So may what follows from the rest:
// "layouts" or any of its members, "routes", "workers", "bottleneck", "checksum"; and "bound",
// which only the search for a plan can tell. A plan of decisions alone leaves all of that out, and
// where the stages follow one another in the model's order, each names its first operator only:
//
//    "stages": [
//      {"parts": [0], "first": "conv1"},
//      {"parts": [1], "first": "conv2"}]
#pragma once

#include <string>

#include "partitioner/plan.h"
#include "runtime/json.h"

namespace kerf::partitioner {

inline constexpr int64_t kPlanVersion = 1;

// Everything but the checksum.
Json plan_to_json(const Model& model, const Plan& plan);
Json decisions_to_json(const Model& model, const Plan& plan);
std::string plan_checksum(const Json& plan);
// One line for what fits a line, else one line per member, and one per object of a top-level array:
// short enough to read, to edit and to compare.
std::string readable_json(const Json& json);

}  // namespace kerf::partitioner
