// Channels last: a model whose images lie [N, H, W, C] around its convolutions.
//
//   image [N, 3, H, W] ── Transpose ── Conv ── Relu ── MaxPool ── Transpose ── Flatten ── Gemm
//                                      [N, H, W, C] ............
//
// A processor multiplies whole vectors of channels, and so does every library; ONNX's order costs
// them a reordering before and after each convolution. The format is one of the *uncut* model:
// every cut of it, and one worker, compute with the same axes, so that the same bits come out
// (contract 1), and cuts, connectors, messages and slots know nothing of it. Parameters, inputs and
// labels keep ONNX's axes, and so do the results of a model without a loss: files and data sets are
// as they were. Nodes and parameters keep their names and numbers. A value that is needed in the
// other order too is brought into it once, by a node "NAME.channels_last" or "NAME.channels_first".
// Pure function.
//
// The commands turn every model that they make; who builds models of his own calls it himself.
#pragma once

#include "partitioner/model.h"

namespace kerf::partitioner {

// The model itself where it has no convolution. Convolutions are so, and what can be
// (ops::OperatorDefinition::channels_last) of what reads an image that is.
Model channels_last(const Model& model);

}  // namespace kerf::partitioner
