// Division by space: rows of the image, for free cuts without a file.
//
//   worker 0   rows 0-55      conv1 ─ pool1 ─ conv2 ...  by sample     fc6 by feature
//   worker 1   rows 56-111    conv1 ─ pool1 ─ conv2 ...  ...           ...
//
// An operator that reads an image of four rows or more for each worker is divided by rows of its
// output: of its neighbours a part needs a halo only, as many rows as the window is higher than
// its stride. Where rows begin follows from the readers, last operator first: anywhere within the
// halo costs the same, so it goes towards even shares there, and a pool without overlap gets all it
// reads where it is made. Smaller images are divided by sample where there are samples enough. What
// is no image is spread as the feature cut spreads it (spread.h), however little it is, so that no
// worker has all weights of a layer; but a product of many features that lie by sample is divided
// by its inputs where that takes less time on the wire, and a loss by sample. (Space and the rest
// by what suits each layer: Dryden et al. 2019, "Improving strong-scaling of CNN training by
// exploiting finer-grained parallelism".) Training batch normalisations exchange sums (rewrite.h).
//
// Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// By node; empty where the node follows its input, or is divided by feature (spread.h).
// `rewriting`: of a model that is to be rewritten for them, what a node needs whole may be divided.
std::vector<std::optional<ops::Layout>> divisions_by_space(const Model& model,
                                                           const PlanRequest& request,
                                                           bool rewriting);
// Whether any operator is divided by rows.
bool has_space_to_divide(const Model& model, const PlanRequest& request);

}  // namespace kerf::partitioner
