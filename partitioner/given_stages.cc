#include "partitioner/given_stages.h"

#include <algorithm>
#include <set>

#include "partitioner/at.h"
#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::partitioner {
namespace {

constexpr int kMostGivenStages = 1 << 20;

std::string unknown_names(const CostGraph& graph, const NamedStages& named) {
  std::unordered_map<std::string, int> known;
  for (int node = 0; node < graph.size(); ++node) known.emplace(graph.node(node).name, node);
  std::vector<std::string> unknown;
  for (const auto& [name, stage] : named)
    if (!known.contains(name)) unknown.push_back(name);
  if (unknown.empty()) return {};
  return format("there is no node \"{}\" in {}", *std::min_element(unknown.begin(), unknown.end()),
                graph.name());
}

std::string parted_colour(const CostGraph& graph, const std::vector<int>& stage_of) {
  std::unordered_map<int, int> first;
  for (int node = 0; node < graph.size(); ++node) {
    const int colour = graph.node(node).colour;
    if (colour < 0) continue;
    const int other = first.try_emplace(colour, node).first->second;
    if (stage_of[at(node)] != stage_of[at(other)])
      return format("{} and {} must share a stage, but are in {} and {}", graph.node(other).name,
                    graph.node(node).name, stage_of[at(other)], stage_of[at(node)]);
  }
  return {};
}

// An edge between stages that are on one cycle.
std::string cycle_of(const CostGraph& graph, const std::vector<int>& stage_of, int stages) {
  for (const bool backward : {false, true}) {
    Edges edges;
    const auto each = [&](const auto& act) {
      const auto [begin, end] = boost::edges(graph.rows());
      for (auto edge = begin; edge != end; ++edge) {
        const auto from = static_cast<int>(boost::source(*edge, graph.rows()));
        const auto to = static_cast<int>(boost::target(*edge, graph.rows()));
        if (stage_of[at(from)] != stage_of[at(to)] && graph.node(from).backward == backward &&
            graph.node(to).backward == backward)
          act(from, to);
      }
    };
    each([&](int from, int to) { edges.emplace_back(stage_of[at(from)], stage_of[at(to)]); });
    const std::vector<int> component = strong_components(stages, edges);
    std::string found;
    each([&](int from, int to) {
      const int a = stage_of[at(from)];
      const int b = stage_of[at(to)];
      if (found.empty() && component[at(a)] == component[at(b)])
        found = format("stages {} and {} feed each other: {} in {} feeds {} in {}", std::min(a, b),
                       std::max(a, b), graph.node(from).name, a, graph.node(to).name, b);
    });
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

NamedStages read_stages(const std::string& text, const std::string& origin) {
  const Json file = parse_json(text, origin);
  // A node may have that name, too.
  const bool whole =
      file.is_object() && file.contains("assignment") && file["assignment"].is_object();
  const Json& stages = whole ? file["assignment"] : file;
  const std::string where = whole ? origin + ": assignment" : origin;
  if (!stages.is_object())
    throw Error(ErrorCode::kUsage, "must be an object of node to stage", where);
  if (file.is_object() && file.contains("kerf_plan") && !whole)
    throw Error(ErrorCode::kUsage,
                "this is a plan, and wanted are stages: an object of node to stage, as "
                "\"assignment\" of kerf plan --json; a plan is run by kerf train --plan",
                where);
  NamedStages result;
  for (const auto& [name, stage] : stages.items()) {
    if (!stage.is_number_integer() || stage < 0 || stage >= kMostGivenStages)
      throw Error(ErrorCode::kUsage,
                  format("\"{}\": {} is no stage: a whole number from 0", name, json_text(stage)),
                  where);
    result.emplace(name, stage.get<int>());
  }
  return result;
}

GivenStages stages_of_names(const CostGraph& graph, const NamedStages& named) {
  GivenStages given;
  given.unsound = unknown_names(graph, named);
  if (!given.unsound.empty()) return given;
  for (int node = 0; node < graph.size(); ++node) {
    const auto found = named.find(graph.node(node).name);
    if (found == named.end()) {
      given.unsound = format("node \"{}\" is in no stage", graph.node(node).name);
      return given;
    }
    given.stage_of.push_back(found->second);
    given.stages = std::max(given.stages, found->second + 1);
  }
  std::vector<bool> used(at(given.stages));
  for (const int stage : given.stage_of) used[at(stage)] = true;
  if (const auto gap = std::find(used.begin(), used.end(), false); gap != used.end())
    given.unsound = format("stage {} has no node, but there is a stage {}", gap - used.begin(),
                           given.stages - 1);
  if (given.unsound.empty()) given.unsound = parted_colour(graph, given.stage_of);
  if (given.unsound.empty()) given.unsound = cycle_of(graph, given.stage_of, given.stages);
  return given;
}

std::vector<int> in_running_order(const CostGraph& graph, const GivenStages& given) {
  Edges edges;
  const auto [begin, end] = boost::edges(graph.rows());
  for (auto edge = begin; edge != end; ++edge) {
    const int a = given.stage_of[boost::source(*edge, graph.rows())];
    const int b = given.stage_of[boost::target(*edge, graph.rows())];
    if (a != b) edges.emplace_back(a, b);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<int> waits(at(given.stages));
  for (const auto& [a, b] : edges) ++waits[at(b)];
  std::set<int> ready;  // stages that wait for none
  for (int stage = 0; stage < given.stages; ++stage)
    if (waits[at(stage)] == 0) ready.insert(stage);
  std::vector<int> number(at(given.stages), -1);
  for (int next = 0; next < given.stages; ++next) {
    KERF_CHECK(!ready.empty(), "stages on a cycle");
    const int stage = *ready.begin();
    ready.erase(ready.begin());
    number[at(stage)] = next;
    const auto first = std::lower_bound(edges.begin(), edges.end(), std::pair(stage, 0));
    for (auto edge = first; edge != edges.end() && edge->first == stage; ++edge)
      if (--waits[at(edge->second)] == 0) ready.insert(edge->second);
  }
  return number;
}

}  // namespace kerf::partitioner
