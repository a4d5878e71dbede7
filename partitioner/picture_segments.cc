#include "partitioner/picture_segments.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

constexpr int kMostWhole = 96;    // operators that are drawn one by one
constexpr int kMostOpened = 600;  // boxes of an opened stage whose operators are
constexpr int kFewOpened = 48;    // segments of one that has more

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

// Each operator is a box on each worker of the stage.
int segments_of_opened(const Plan& plan, const Stage& stage) {
  const auto nodes = std::ssize(stage.nodes);
  const auto boxes = nodes * std::ssize(plan.workers_of(stage));
  return static_cast<int>(boxes <= kMostOpened ? nodes : std::min<int64_t>(nodes, kFewOpened));
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
    const Stage& stage = plan.stages[static_cast<size_t>(s)];
    const int count = whole                ? static_cast<int>(stage.nodes.size())
                      : s == result.opened ? segments_of_opened(plan, stage)
                                           : 1;
    add_segments(plan, s, count, result.segments);
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
