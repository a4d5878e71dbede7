#include "tests/partitioner/onnx/operators_page.h"

#include <algorithm>
#include <map>

#include "partitioner/onnx/adapt.h"
#include "partitioner/onnx/own_operators.h"
#include "tests/conformance/operator_case.h"

namespace kerf::partitioner::onnx {
namespace {

struct Row {
  std::set<std::string> types;
  std::set<std::string> divided;  // names of axes
  std::set<std::string> whole;
  int cases = 0;
  int passed = 0;
  int tests = 0;
};

std::string list_of_names(const std::set<std::string>& names) {
  return names.empty() ? "-" : format("{}", fmt::join(names, ", "));
}

// Those of ONNX whose meaning is the definition's; older ones may be translated to it.
std::string opsets(const ops::OperatorDefinition& definition) {
  if (is_own_operator(definition.name)) return "Kerf's own";
  const bool translated = definition.first_opset > 1 && is_adapted(definition.name);
  return format("{}-{}{}", definition.first_opset, definition.last_opset,
                translated ? ", older translated" : "");
}

std::string kernels(const std::string& op) {
  std::vector<std::string> kinds;
  if (ops::has_kernel(op, runtime::DeviceKind::kCpu)) kinds.emplace_back("CPU");
  if (ops::has_kernel(op, runtime::DeviceKind::kCuda)) kinds.emplace_back("CUDA");
  return kinds.empty() ? "none: memory is shared" : format("{}", fmt::join(kinds, ", "));
}

}  // namespace

std::string operators_page(const std::vector<BackendResult>& results) {
  std::map<std::string, Row> rows;
  for (const std::string& name : ops::operator_names()) rows[name];
  for (const ops::OperatorCase& scene : ops::operator_cases()) {
    if (!rows.contains(scene.op)) continue;
    Row& row = rows[scene.op];
    ++row.cases;
    const auto bound = ops::bind(scene);
    for (const ops::IterationAxis& axis : bound->space().axes)
      (axis.undivided.empty() ? row.divided : row.whole).insert(axis.name);
    for (const ops::CaseInput& input : scene.inputs)
      if (input.present) row.types.emplace(ops::to_string(input.spec.dtype));
  }
  for (const BackendResult& result : results)
    for (const std::string& op : result.ops) {
      if (!rows.contains(op)) continue;
      ++rows[op].tests;
      if (!result.failure.empty()) continue;
      ++rows[op].passed;
    }
  std::string page =
      "# Operators\n\nMade by `onnx_backend_test PASSING --operators docs/operators.md`. "
      "*Opsets*: those in which the name means what Kerf's node does; *older translated*: what it "
      "meant before, where ONNX had it, is told in such nodes when a file is read. "
      "*Divided*: "
      "iteration axes that a cut may divide in some conformance case; *whole*: those that some "
      "case "
      "needs whole. *Tests*: ONNX's backend tests with the operator that pass, and conformance "
      "cases.\n\n"
      "| operator | opsets | types tried | divided | whole | kernels | ONNX tests | cases |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const auto& [name, row] : rows)
    page += format("| {} | {} | {} | {} | {} | {} | {} of {} | {} |\n", name,
                   opsets(ops::find_operator(name)), list_of_names(row.types),
                   list_of_names(row.divided), list_of_names(row.whole), kernels(name), row.passed,
                   row.tests, row.cases);
  return page;
}

}  // namespace kerf::partitioner::onnx
