#include "partitioner/picture_segments.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

constexpr int kMostWhole = 96;   // operators that are drawn one by one
constexpr int kMostOpened = 48;  // segments of the opened stage

int stage_of_slowest(const Plan& plan) {
  const auto slowest =
      std::max_element(plan.workers.begin(), plan.workers.end(),
                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  if (slowest == plan.workers.end()) return 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<int> workers = plan.workers_of(plan.stages[s]);
    if (std::find(workers.begin(), workers.end(), slowest->worker) != workers.end())
      return static_cast<int>(s);
  }
  return 0;
}

// `count` segments of a stage, as even as can be.
void add_segments(const Plan& plan, int stage, int count, std::vector<PictureSegment>& segments) {
  const std::vector<NodeId>& nodes = plan.stages[static_cast<size_t>(stage)].nodes;
  const auto first_of = [&](int i) { return nodes.begin() + std::ssize(nodes) * i / count; };
  for (int i = 0; i < count; ++i) segments.push_back({stage, {first_of(i), first_of(i + 1)}});
}

}  // namespace

PictureSegments picture_segments(const Model& model, const Plan& plan, std::optional<int> open) {
  const int stages = static_cast<int>(plan.stages.size());
  if (open && (*open < 0 || *open >= stages))
    throw Error(
        ErrorCode::kUsage,
        format("there is no stage {} to open; the plan has stages 0 to {}", *open, stages - 1));
  PictureSegments result;
  const bool whole = model.nodes() <= kMostWhole;
  if (whole && open)
    throw Error(ErrorCode::kUsage,
                format("the picture of {} operators shows all of them; leave it out (a stage is "
                       "opened where they are more than {})",
                       model.nodes(), kMostWhole));
  if (!whole) result.opened = open.value_or(stage_of_slowest(plan));
  for (int s = 0; s < stages; ++s) {
    const int nodes = static_cast<int>(plan.stages[static_cast<size_t>(s)].nodes.size());
    const int most = whole ? nodes : s == result.opened ? std::min(nodes, kMostOpened) : 1;
    add_segments(plan, s, most, result.segments);
  }
  std::erase_if(result.segments,
                [](const PictureSegment& segment) { return segment.nodes.empty(); });
  std::sort(result.segments.begin(), result.segments.end(),
            [](const auto& a, const auto& b) { return a.nodes[0] < b.nodes[0]; });
  result.of_node.resize(static_cast<size_t>(model.nodes()), -1);
  for (size_t b = 0; b < result.segments.size(); ++b)
    for (const NodeId node : result.segments[b].nodes)
      result.of_node[static_cast<size_t>(node)] = static_cast<int>(b);
  return result;
}

}  // namespace kerf::partitioner
