// A graph that was exported for answers, made into one that trains. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// What computed the first output of the scores, and no more does.
struct Joined {
  std::string op = {};  // empty: nothing
  std::string where = {};
  int64_t axis = -1;
  bool to_the_last = false;  // over all axes from that one on
};

// Leaves the first output only, before the Softmax or LogSoftmax that gives it where the loss is
// cross-entropy, or the Sigmoid where it is that of yes and no: those have it themselves. Says so
// in `notes`.
Joined end_in_scores(Graph& graph, const std::string& loss, std::vector<std::string>& notes);
// Throws Error{kUsage} unless what was joined with cross-entropy is over the axis of its classes.
void check_joined(const Joined& joined, const ops::Shape& scores);

// The last Gemm or MatMul before the first output gets a new weight, and bias where it has one, for
// so many classes; they begin as PyTorch's layers do. Throws Error{kUsage} where there is none, or
// its weight is used elsewhere too.
void replace_head(Graph& graph, int64_t classes, std::vector<std::string>& notes);

// Batch normalisations take the statistics of their batch, and learn running ones.
void train_batch_norms(Graph& graph);
// Reports that convolutions seem to have batch normalisations in them, which do not come apart.
void report_folded_norms(const Graph& graph, std::vector<std::string>& notes);

}  // namespace kerf::partitioner::onnx
