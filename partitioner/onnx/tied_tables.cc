#include "partitioner/onnx/tied_tables.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "runtime/format.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr int64_t kRowsAtOnce = 256;

const Stored* stored_matrix(const Graph& graph, const GraphNode& node, size_t input) {
  if (input >= node.inputs.size()) return nullptr;
  const auto found = graph.initializers.find(node.inputs[input]);
  if (found == graph.initializers.end()) return nullptr;
  const Stored& stored = found->second;
  const bool matrix = stored.spec.shape.rank() == 2 && stored.spec.shape.elements() > 1;
  return matrix && stored.spec.dtype == ops::DType::kFloat32 && stored.contents != nullptr
             ? &stored
             : nullptr;
}

// As many of a tensor's numbers, from the one at `first` on, as there is room for.
void read_numbers(const Stored& stored, int64_t first, std::span<float> to) {
  stored.contents->read(static_cast<size_t>(first) * sizeof(float), std::as_writable_bytes(to));
}

// Whether both have the same numbers, which are not all one number.
bool is_turned_over(const Stored& table, const Stored& other) {
  const int64_t rows = table.spec.shape[0];
  const int64_t columns = table.spec.shape[1];
  if (other.spec.shape != ops::Shape{columns, rows}) return false;
  float one = 0;
  read_numbers(table, 0, {&one, 1});
  bool differ = false;
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - first);
    std::vector<float> block(static_cast<size_t>(count * columns));
    read_numbers(table, first * columns, block);
    std::vector<float> strip(static_cast<size_t>(count));
    for (int64_t column = 0; column < columns; ++column) {
      read_numbers(other, column * rows + first, strip);
      for (int64_t row = 0; row < count; ++row) {
        const float number = block[static_cast<size_t>(row * columns + column)];
        if (!(number == strip[static_cast<size_t>(row)])) return false;
        differ = differ || number != one;
      }
    }
  }
  return differ;
}

}  // namespace

void tie_tables(Graph& graph, std::vector<std::string>& notes) {
  std::vector<std::string> tables;
  for (const GraphNode& node : graph.nodes)
    if (node.op == "Gather" && stored_matrix(graph, node, 0) != nullptr &&
        std::find(tables.begin(), tables.end(), node.inputs[0]) == tables.end())
      tables.push_back(node.inputs[0]);
  std::vector<GraphNode> turns;
  for (const GraphNode& node : graph.nodes) {
    const Stored* matrix = node.op == "MatMul" ? stored_matrix(graph, node, 1) : nullptr;
    if (matrix == nullptr ||
        (!matrix->name.starts_with("onnx::") && !matrix->name.starts_with("val_")))
      continue;
    for (const std::string& table : tables) {
      if (!is_turned_over(graph.initializers.at(table), *matrix)) continue;
      const std::string name = matrix->name;
      notes.push_back(format("{} is {} turned over, and stays tied to it", name, table));
      turns.push_back({free_name(name + ".turned", names_of(graph)),
                       "Transpose",
                       {{"perm", std::vector<int64_t>{1, 0}}},
                       {table},
                       {name}});
      graph.initializers.erase(name);
      break;
    }
  }
  graph.nodes.insert(graph.nodes.begin(), turns.begin(), turns.end());
}

}  // namespace kerf::partitioner::onnx
