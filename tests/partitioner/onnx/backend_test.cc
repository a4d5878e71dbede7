// Runs ONNX's backend tests, prints how many of each class pass and why others do not, and holds
// them to the list of those that passed before, which only grows.
//
//   onnx_backend_test PASSING.txt [--update] [--data FOLDER] [--operators PAGE.md]
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>

#include "runtime/format.h"
#include "tests/partitioner/onnx/backend_tests.h"
#include "tests/partitioner/onnx/operators_page.h"

namespace {

namespace fs = std::filesystem;
using kerf::partitioner::onnx::BackendResult;

constexpr int kSkipped = 77;

struct Count {
  int passed = 0;
  int all = 0;
};

std::set<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') lines.insert(line);
  return lines;
}

int run(const fs::path& list, const fs::path& data, bool update, const fs::path& page) {
  const std::set<std::string> before = lines_of(list);
  std::map<std::string, Count> counts;
  std::set<std::string> passing;
  std::map<std::string, std::string> failures;
  std::vector<BackendResult> results;
  kerf::partitioner::onnx::Evaluator evaluator;
  for (const fs::path& folder : kerf::partitioner::onnx::backend_tests(data)) {
    results.push_back(run_backend_test(folder, evaluator));
    const BackendResult& result = results.back();
    Count& count = counts[folder.parent_path().filename().string()];
    ++count.all;
    if (!result.failure.empty()) {
      failures[result.name] = result.failure;
      continue;
    }
    ++count.passed;
    passing.insert(result.name);
  }
  for (const auto& [name, why] : failures) std::cout << kerf::format("{}: {}\n", name, why);
  int lost = 0;
  for (const std::string& name : before)
    if (!passing.contains(name)) {
      ++lost;
      std::cout << kerf::format("LOST {}: {}\n", name,
                                failures.contains(name) ? failures[name] : "there is no such test");
    }
  for (const auto& [kind, count] : counts)
    std::cout << kerf::format("{}: {} of {} pass\n", kind, count.passed, count.all);
  if (!page.empty()) std::ofstream(page) << kerf::partitioner::onnx::operators_page(results);
  if (update) {
    std::ofstream out(list);
    out << "# ONNX's backend tests that pass. The list only grows: onnx_backend_test FILE "
           "--update\n";
    for (const std::string& name : passing) out << name << '\n';
  } else if (passing.size() > before.size()) {
    std::cout << kerf::format("{} more pass than the list has: add them by --update\n",
                              passing.size() - before.size());
  }
  if (before.empty() && !update) std::cout << "the list is empty\n";
  return lost > 0 || (before.empty() && !update) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  fs::path data = kerf::partitioner::onnx::kBackendData;
  fs::path list;
  fs::path page;
  bool update = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--update")
      update = true;
    else if (arguments[i] == "--operators" && i + 1 < arguments.size())
      page = arguments[++i];
    else if (arguments[i] == "--data" && i + 1 < arguments.size())
      data = arguments[++i];
    else
      list = arguments[i];
  }
  if (!fs::is_directory(data)) {
    std::cout << kerf::format("{} is not there; install libonnx-testdata\n", data.string());
    return kSkipped;
  }
  return run(list, data, update, page);
}
