// Runs ONNX's backend tests, prints how many of each class pass and why others do not, and holds
// them to the list of those that passed before, which only grows.
//
//   onnx_backend_test PASSING.txt [--update] [--data FOLDER] [--operators PAGE.md]
//                     [--same-operators PAGE.md]
//
// --update writes the list anew, unless a test of it is lost: who gives one up takes its line out
// by hand. --operators writes the page of operators (docs/operators.md), --same-operators fails
// where it would be another.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "runtime/file.h"
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

// How many lines of a page are not those that it would have now; prints the first of them.
int changed_lines(const fs::path& page, const std::string& now) {
  std::istringstream before(kerf::runtime::read_file(page));
  std::istringstream after(now);
  int changed = 0;
  for (std::string was, is; before || after; was.clear(), is.clear()) {
    std::getline(before, was);
    std::getline(after, is);
    if (was == is || ++changed > 1) continue;
    std::cout << kerf::format("{} is out of date, as in\n- {}\n+ {}\n", page.string(), was, is);
  }
  if (changed > 0)
    std::cout << kerf::format("{} in all; onnx_backend_test PASSING.txt --operators {}\n",
                              kerf::plural(changed, "line"), page.string());
  return changed;
}

struct Pages {
  fs::path written;
  fs::path compared;
};

struct Found {
  std::map<std::string, Count> counts;
  std::set<std::string> passing;
  std::map<std::string, std::string> failures;
  std::vector<BackendResult> results;
};

Found run_all(const fs::path& data) {
  Found found;
  kerf::partitioner::onnx::Evaluator evaluator;
  for (const fs::path& folder : kerf::partitioner::onnx::backend_tests(data)) {
    found.results.push_back(run_backend_test(folder, evaluator));
    const BackendResult& result = found.results.back();
    Count& count = found.counts[folder.parent_path().filename().string()];
    ++count.all;
    if (!result.failure.empty()) {
      found.failures[result.name] = result.failure;
      continue;
    }
    ++count.passed;
    found.passing.insert(result.name);
  }
  return found;
}

int print_lost(const std::set<std::string>& before, const Found& found) {
  int lost = 0;
  for (const std::string& name : before) {
    if (found.passing.contains(name)) continue;
    ++lost;
    const auto why = found.failures.find(name);
    std::cout << kerf::format("LOST {}: {}\n", name,
                              why == found.failures.end() ? "there is no such test" : why->second);
  }
  return lost;
}

// Whether the list is as it should be.
bool keep_list(const fs::path& list, bool update, const std::set<std::string>& before, int lost,
               const std::set<std::string>& passing) {
  if (update && lost > 0) {
    std::cout << kerf::format("{} stays as it is: it only grows\n", list.string());
  } else if (update) {
    std::ofstream out(list);
    out << "# ONNX's backend tests that pass. The list only grows: onnx_backend_test FILE "
           "--update\n";
    for (const std::string& name : passing) out << name << '\n';
    return true;
  } else if (before.empty()) {
    std::cout << "the list is empty\n";
    return false;
  } else if (passing.size() > before.size()) {
    std::cout << kerf::format("{} more pass than the list has: add them by --update\n",
                              passing.size() - before.size());
  }
  return lost == 0;
}

int run(const fs::path& list, const fs::path& data, bool update, const Pages& pages) {
  const std::set<std::string> before = lines_of(list);
  const Found found = run_all(data);
  for (const auto& [name, why] : found.failures) std::cout << kerf::format("{}: {}\n", name, why);
  const int lost = print_lost(before, found);
  for (const auto& [kind, count] : found.counts)
    std::cout << kerf::format("{}: {} of {} pass\n", kind, count.passed, count.all);
  const std::string page = kerf::partitioner::onnx::operators_page(found.results);
  if (!pages.written.empty()) std::ofstream(pages.written) << page;
  const bool same = pages.compared.empty() || changed_lines(pages.compared, page) == 0;
  return keep_list(list, update, before, lost, found.passing) && same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  fs::path data = kerf::partitioner::onnx::kBackendData;
  fs::path list;
  Pages pages;
  bool update = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--update")
      update = true;
    else if (arguments[i] == "--operators" && i + 1 < arguments.size())
      pages.written = arguments[++i];
    else if (arguments[i] == "--same-operators" && i + 1 < arguments.size())
      pages.compared = arguments[++i];
    else if (arguments[i] == "--data" && i + 1 < arguments.size())
      data = arguments[++i];
    else
      list = arguments[i];
  }
  if (!fs::is_directory(data)) {
    std::cout << kerf::format("{} is not there; install libonnx-testdata\n", data.string());
    return kSkipped;
  }
  return run(list, data, update, pages);
}
