#include "tests/partitioner/onnx/backend_tests.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "partitioner/onnx/import.h"
#include "partitioner/onnx/read.h"

namespace kerf::partitioner::onnx {
namespace {

namespace fs = std::filesystem;
using ops::TensorLiteral;
using Tensors = std::map<std::string, TensorLiteral>;

// As ONNX's own runner has them.
constexpr float kRelative = 1e-3F;
constexpr float kAbsolute = 1e-7F;

bool same_float(float got, float wanted) {
  if (std::isnan(wanted) || std::isinf(wanted))
    return std::isnan(wanted) ? std::isnan(got) : got == wanted;
  return std::abs(got - wanted) <= kAbsolute + kRelative * std::abs(wanted);
}

std::string difference(const TensorLiteral& got, const TensorLiteral& wanted) {
  if (got.dtype != wanted.dtype || !(got.shape == wanted.shape))
    return format("gives {} {}, not {} {}", ops::to_string(got.dtype), ops::to_string(got.shape),
                  ops::to_string(wanted.dtype), ops::to_string(wanted.shape));
  if (got.dtype != ops::DType::kFloat32)
    return got.bytes == wanted.bytes ? "" : "gives other integers";
  for (size_t at = 0; at < got.bytes.size(); at += sizeof(float)) {
    float a = 0;
    float b = 0;
    std::memcpy(&a, got.bytes.data() + at, sizeof(a));
    std::memcpy(&b, wanted.bytes.data() + at, sizeof(b));
    if (!same_float(a, b)) return format("gives {} for {} at {}", a, b, at / sizeof(float));
  }
  return {};
}

TensorLiteral as_given(const fs::path& file) { return read_tensor(file); }

// What other operators stand for.
const std::set<std::string>& translated() {
  static const std::set<std::string> kOps{"CastLike",    "QuantizeLinear", "DequantizeLinear",
                                          "ConvInteger", "MatMulInteger",  "DynamicQuantizeLinear",
                                          "QLinearConv", "QLinearMatMul"};
  return kOps;
}

// What an operator of Kerf's has as an attribute is the same for every sample.
std::set<std::string> attribute_inputs(const Graph& graph) {
  std::set<std::string> names;
  const auto known = ops::operator_names();
  for (const GraphNode& node : graph.nodes) {
    if (translated().contains(node.op)) continue;
    if (std::find(known.begin(), known.end(), node.op) == known.end()) {
      names.insert(node.inputs.begin(), node.inputs.end());  // only ever folded
      continue;
    }
    for (const ops::InputAttribute& place : ops::find_operator(node.op).input_attributes)
      if (const auto at = static_cast<size_t>(place.input); at < node.inputs.size())
        names.insert(node.inputs[at]);
  }
  return names;
}

std::string run(const Graph& graph, const fs::path& data, Evaluator& evaluator,
                BackendResult& result) {
  ImportOptions options;
  options.whole_inputs = true;
  const std::set<std::string> fixed = attribute_inputs(graph);
  Tensors inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    TensorLiteral literal = as_given(data / format("input_{}.pb", i));
    result.types.insert(std::string(ops::to_string(literal.dtype)));
    auto& to = fixed.contains(graph.inputs[i].name) ? options.constants : inputs;
    to.emplace(graph.inputs[i].name, std::move(literal));
  }
  const Imported imported = import_graph(graph, options);
  const auto given = imported.model.nodes() == 0 ? std::vector<TensorLiteral>{}
                                                 : evaluate(imported.model, inputs, evaluator);
  const auto results =
      imported.model.names_results() ? imported.model.results() : std::vector<Result>{};
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const TensorLiteral wanted = as_given(data / format("output_{}.pb", i));
    const auto constant = imported.constants.find(graph.outputs[i]);
    const TensorLiteral* got = constant == imported.constants.end() ? nullptr : &constant->second;
    for (size_t k = 0; k < results.size(); ++k)
      if (results[k].name == graph.outputs[i]) got = &given[k];
    if (got == nullptr) return format("does not give {}", graph.outputs[i]);
    const std::string differs = difference(*got, wanted);
    if (!differs.empty()) return format("{}: {}", graph.outputs[i], differs);
  }
  return {};
}

}  // namespace

std::vector<fs::path> backend_tests(const fs::path& data) {
  std::vector<fs::path> folders;
  for (const char* kind : {"node", "pytorch-converted", "pytorch-operator", "simple"})
    for (const auto& entry : fs::directory_iterator(data / kind))
      if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

BackendResult run_backend_test(const fs::path& folder, Evaluator& evaluator) {
  BackendResult result;
  result.name = (folder.parent_path().filename() / folder.filename()).string();
  try {
    const Graph graph = read_graph(folder / "model.onnx");
    for (const GraphNode& node : graph.nodes) result.ops.insert(node.op);
    result.failure = run(graph, folder / "test_data_set_0", evaluator, result);
  } catch (const std::exception& error) {
    result.failure = error.what();
    const std::string place = (folder / "").string();
    if (result.failure.starts_with(place)) result.failure.erase(0, place.size());
  }
  return result;
}

}  // namespace kerf::partitioner::onnx
