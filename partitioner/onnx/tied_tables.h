// Tables that rows are picked of and that are multiplied with, too, where an exporter has computed
// the second: in the file are two matrices, in the program was one.
#pragma once

#include <string>
#include <vector>

#include "partitioner/onnx/budget.h"
#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// A matrix that the exporter named and that has the numbers of a Gather's table, turned over,
// becomes a Transpose of that table; tables of one number, again and again, are none. Reads tables
// and such matrices in pieces, as many numbers as the budget has.
void tie_tables(Graph& graph, Budget& budget, std::vector<std::string>& notes);

}  // namespace kerf::partitioner::onnx
