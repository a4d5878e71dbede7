#include "partitioner/onnx/tied_tables.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "runtime/format.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr int64_t kTile = 512;    // rows and columns that are compared at once
constexpr int64_t kSampled = 16;  // numbers that say which tables to compare with

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

// A matrix, or what it is turned over.
struct Matrix {
  const Stored* stored;
  bool turned = false;

  int64_t rows() const { return stored->spec.shape[turned ? 1 : 0]; }
  int64_t columns() const { return stored->spec.shape[turned ? 0 : 1]; }

  // Of its rows and columns from these on, `tall` by `wide` numbers.
  std::vector<float> tile(int64_t row, int64_t column, int64_t tall, int64_t wide) const {
    const int64_t lines = turned ? wide : tall;  // as they are stored
    const int64_t line = turned ? tall : wide;
    std::vector<float> numbers(static_cast<size_t>(tall * wide));
    for (int64_t i = 0; i < lines; ++i) {
      const int64_t first = turned ? (column + i) * rows() + row : (row + i) * columns() + column;
      stored->contents->read(static_cast<size_t>(first) * sizeof(float),
                             std::as_writable_bytes(std::span(numbers).subspan(
                                 static_cast<size_t>(i * line), static_cast<size_t>(line))));
    }
    if (!turned) return numbers;
    std::vector<float> over(numbers.size());
    for (int64_t i = 0; i < tall; ++i)
      for (int64_t j = 0; j < wide; ++j)
        over[static_cast<size_t>(i * wide + j)] = numbers[static_cast<size_t>(j * tall + i)];
    return over;
  }
};

// Calls visit(row, column, tall, wide) for all tiles until that is false; whether it never was.
template <class Visit>
bool all_tiles(const Matrix& matrix, const Visit& visit) {
  for (int64_t row = 0; row < matrix.rows(); row += kTile)
    for (int64_t column = 0; column < matrix.columns(); column += kTile)
      if (!visit(row, column, std::min(kTile, matrix.rows() - row),
                 std::min(kTile, matrix.columns() - column)))
        return false;
  return true;
}

// Tables of one number, as those that nothing has trained, are alike and not tied.
bool is_one_number(const Matrix& matrix, Budget& budget) {
  const float one = matrix.tile(0, 0, 1, 1)[0];
  return all_tiles(matrix, [&](int64_t row, int64_t column, int64_t tall, int64_t wide) {
    budget.look_at(static_cast<size_t>(tall * wide) * sizeof(float));
    const std::vector<float> tile = matrix.tile(row, column, tall, wide);
    return std::all_of(tile.begin(), tile.end(), [&](float number) { return number == one; });
  });
}

bool are_same(const Matrix& a, const Matrix& b, Budget& budget) {
  return all_tiles(a, [&](int64_t row, int64_t column, int64_t tall, int64_t wide) {
    budget.look_at(2 * static_cast<size_t>(tall * wide) * sizeof(float));
    return a.tile(row, column, tall, wide) == b.tile(row, column, tall, wide);
  });
}

// Its extents and some of its numbers: matrices of others differ.
using Sample = std::pair<std::pair<int64_t, int64_t>, std::vector<float>>;

Sample sample_of(const Matrix& matrix) {
  Sample sample{{matrix.rows(), matrix.columns()}, {}};
  for (int64_t i = 0; i < kSampled; ++i) {
    const int64_t row = static_cast<int64_t>(static_cast<double>(i) / kSampled *
                                             static_cast<double>(matrix.rows()));
    const int64_t column = i * 7919 % matrix.columns();
    const float number = matrix.tile(row, column, 1, 1)[0];
    sample.second.push_back(number == 0 || number != number ? 0 : number);
  }
  return sample;
}

// Names of tables that rows are picked of.
using Tables = std::map<Sample, std::vector<std::string>>;

Tables tables_of(const Graph& graph, Budget& budget) {
  Tables tables;
  std::set<std::string> seen;
  for (const GraphNode& node : graph.nodes) {
    const Stored* table = node.op == "Gather" ? stored_matrix(graph, node, 0) : nullptr;
    if (table == nullptr || !seen.insert(table->name).second) continue;
    if (!is_one_number({table}, budget)) tables[sample_of({table})].push_back(table->name);
  }
  return tables;
}

// That has the same numbers; empty: there is none.
std::string table_of(const Graph& graph, const Tables& tables, const Matrix& turned,
                     Budget& budget) {
  const auto alike = tables.find(sample_of(turned));
  if (alike == tables.end()) return {};
  for (const std::string& name : alike->second)
    if (are_same({&graph.initializers.at(name)}, turned, budget)) return name;
  return {};
}

}  // namespace

void tie_tables(Graph& graph, Budget& budget, std::vector<std::string>& notes) {
  const Tables tables = tables_of(graph, budget);
  if (tables.empty()) return;
  const std::set<std::string> taken = names_of(graph);
  std::vector<GraphNode> turns;
  for (const GraphNode& node : graph.nodes) {
    const Stored* matrix = node.op == "MatMul" ? stored_matrix(graph, node, 1) : nullptr;
    if (matrix == nullptr ||
        (!matrix->name.starts_with("onnx::") && !matrix->name.starts_with("val_")))
      continue;
    const std::string table = table_of(graph, tables, {matrix, true}, budget);
    if (table.empty()) continue;
    const std::string name = matrix->name;
    notes.push_back(format("{} is {} turned over, and stays tied to it", name, table));
    turns.push_back({free_name(name + ".turned", taken),
                     "Transpose",
                     {{"perm", std::vector<int64_t>{1, 0}}},
                     {table},
                     {name}});
    graph.initializers.erase(name);
  }
  graph.nodes.insert(graph.nodes.begin(), turns.begin(), turns.end());
}

}  // namespace kerf::partitioner::onnx
