// The table of cuts. What lists, parses or tries cuts iterates it.
#include <array>

#include "partitioner/cut.h"

namespace kerf::partitioner {

namespace {

constexpr std::array<CutRow, 5> kCuts = {{
    {"layer", "whole operators to workers, in stages that follow each other", cut_layer, true},
    {"feature", "every operator divided over all workers by feature",
     [](const CutTask& t) -> std::optional<Assignment> { return cut_feature(t.model, t.request); },
     false, rewrites_for_feature},
    {"batch", "every operator divided over all workers by sample, weights summed once a step",
     [](const CutTask& t) -> std::optional<Assignment> { return cut_batch(t.model, t.request); },
     false, rewrites_for_batch},
    {"hybrid", "stages of layers, each divided over a group of workers, by feature or by sample",
     cut_hybrid, false, rewrites_for_hybrid},
    {"free",
     "any index set of any operator to any worker, as --shares, --pattern or --way say, or by "
     "the speeds of --devices; else by rows of images where that pays",
     [](const CutTask& t) -> std::optional<Assignment> { return cut_free(t.model, t.request); },
     false, rewrites_for_free},
}};
static_assert(kCuts[static_cast<size_t>(Cut::kLayer)].name == "layer");
static_assert(kCuts[static_cast<size_t>(Cut::kFeature)].name == "feature");
static_assert(kCuts[static_cast<size_t>(Cut::kBatch)].name == "batch");
static_assert(kCuts[static_cast<size_t>(Cut::kHybrid)].name == "hybrid");
static_assert(kCuts[static_cast<size_t>(Cut::kFree)].name == "free");

}  // namespace

std::span<const CutRow> cuts() { return kCuts; }

std::string_view to_string(Cut cut) {
  const auto row = static_cast<size_t>(cut);
  return row < kCuts.size() ? kCuts[row].name : "unknown";
}

Cut parse_cut(const std::string& name) {
  std::vector<std::string_view> names;
  for (size_t row = 0; row < kCuts.size(); ++row) {
    if (kCuts[row].name == name) return static_cast<Cut>(row);
    names.push_back(kCuts[row].name);
  }
  throw Error(ErrorCode::kUsage,
              format("there is no cut \"{}\"; the cuts are {}", name, fmt::join(names, ", ")));
}

}  // namespace kerf::partitioner
