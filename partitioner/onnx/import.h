// From an ONNX file to a model. Pure functions of files.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "partitioner/losses.h"
#include "partitioner/model.h"
#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

struct ImportOptions {
  // Extents of axes that the file only names.
  std::map<std::string, int64_t> dims = {};
  // Patterns of names (ops/name_pattern.h) of what is trained beside weights and biases, and of
  // what is not; the second goes before. Each fits something.
  std::vector<std::string> train = {};
  std::vector<std::string> freeze = {};
  // Added to the first output (partitioner/losses.h), before the Softmax or Sigmoid that gives it
  // if the loss has it itself; empty: none.
  std::string loss = {};
  // Classes that the last Gemm or MatMul gets instead of its own; 0: it stays.
  int64_t head = 0;
  // Batch normalisations take statistics of their batch; else they stay as the file has them.
  bool train_batch_norms = false;
  // Inputs that are the same for every sample.
  std::map<std::string, ops::TensorLiteral> constants = {};
  // Whether what an exporter wrote for one operator becomes it (fuse.h).
  bool fuse = true;
  // The model is for answers only: what follows a convolution becomes a part of it (fuse.h), and
  // nothing can be trained.
  bool answers = false;
  // Nothing is a batch: every input is whole, as ONNX's tests have them.
  bool whole_inputs = false;
};

struct FoldedWeight {
  ops::ValueSpec spec;
  std::shared_ptr<const Contents> contents;
  bool doubtful = false;  // a weight, that the program had in several, or as another
};

// Weights of the program that no value of the model is, or not that one alone: files of weights
// with other numbers cannot say so.
struct FoldedWeights {
  // By name in the file: constants were made of them, or others are put together with them.
  std::map<std::string, FoldedWeight> weights = {};
  // By name in the program: initializers were computed of them when the file was written, and stay
  // as they are.
  struct Computed {
    std::string made;        // one of those
    FoldedWeight before;     // itself; without contents: the file no longer has it
    bool parameter = false;  // of the program, else a buffer
  };
  std::map<std::string, Computed> computed = {};
  std::set<std::string> lost = {};  // by name in the program: the file has nothing of it
  // Read in several places, of which nothing says that they were one in the program.
  std::set<std::string> shared = {};
  // Parameters that the program had, and buffers that it saved; both empty: the file does not say.
  std::set<std::string> parameters = {};
  std::set<std::string> buffers = {};
};

struct Imported {
  Model model;  // its results have the names of the file's outputs
  // Outputs that are the same for all inputs, by name; they are no results.
  std::map<std::string, ops::TensorLiteral> constants = {};
  FoldedWeights folded = {};
  // What a person should know: weights that became float32, operators that do nothing here.
  std::vector<std::string> notes = {};
};

// The first axis of every input is the batch, be it named or fixed. Integer arithmetic around
// shapes is folded, older meanings of operators become the newest, float initializers in the places
// of weights and biases become parameters. Throws Error{kUsage} that names the file, and the node
// with its operator and opset.
Imported import_file(const std::filesystem::path& path, const ImportOptions& options = {});
// The same of a graph that was read.
Imported import_graph(const Graph& graph, const ImportOptions& options = {});

}  // namespace kerf::partitioner::onnx
