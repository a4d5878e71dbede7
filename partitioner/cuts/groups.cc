#include "partitioner/cuts/groups.h"

#include "partitioner/at.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/rewrite.h"

namespace kerf::partitioner {

namespace {

std::vector<std::vector<NodeId>> layers_of_original(const Model& model) {
  std::vector<std::vector<NodeId>> layers(1);
  bool begun = false;  // the first layer has its one-to-all operator
  for (NodeId node = 0; node < model.nodes(); ++node) {
    if (is_one_to_all(model, node)) {
      if (begun) layers.emplace_back();
      begun = true;
    }
    layers.back().push_back(node);
  }
  return layers;
}

}  // namespace

std::vector<std::vector<NodeId>> layers_of(const Model& model) {
  if (model.original() == nullptr) return layers_of_original(model);
  const Model& original = *model.original();
  const std::vector<size_t> layer_of = layer_of_nodes(original);
  std::vector<std::vector<NodeId>> layers(layer_of.back() + 1);
  std::vector<NodeId> pieces;  // whose last one, which has the node's name, is yet to come
  for (NodeId node = 0; node < model.nodes(); ++node) {
    pieces.push_back(node);
    const NodeId whole = original.find_node(model.node(node).name);
    if (whole < 0) continue;
    std::vector<NodeId>& layer = layers[layer_of[at(whole)]];
    layer.insert(layer.end(), pieces.begin(), pieces.end());
    pieces.clear();
  }
  KERF_CHECK(pieces.empty(), "{} ends with pieces of no node", model.name());
  return layers;
}

std::vector<size_t> layer_of_nodes(const Model& model) {
  std::vector<size_t> layer_of(at(model.nodes()));
  const auto layers = layers_of(model);
  for (size_t layer = 0; layer < layers.size(); ++layer)
    for (const NodeId node : layers[layer]) layer_of[at(node)] = layer;
  return layer_of;
}

Groups even_groups(int workers, int stages) {
  Groups groups;
  for (const ops::IndexSet& share : ops::split_evenly(workers, stages))
    groups.push_back({0, {static_cast<int>(share.size(workers)), Way::kFeature}});
  return groups;
}

std::vector<Rewrite> rewrites_of_groups(const Model& model, const PlanRequest& request,
                                        const Groups& groups) {
  const int64_t largest = request.largest_micro_batch();
  const std::vector<double> speeds = request.speeds_of_parts();
  const auto layers = layers_of(model);
  std::vector<Rewrite> result;
  std::vector<std::vector<int>> by_feature;          // groups
  std::vector<int> group_of(at(model.nodes()), -1);  // among those
  size_t layer = 0;
  int worker = 0;
  for (const Group& group : groups) {
    std::vector<int> parts = parts_from(worker, group.shape.workers);
    worker += group.shape.workers;
    const bool by_samples = group.shape.way == Way::kSample;
    for (; layer < at(group.end); ++layer)
      for (const NodeId id : layers[layer]) {
        const Node& node = model.node(id);
        if (!by_samples) {
          group_of[at(id)] = static_cast<int>(by_feature.size());
          continue;
        }
        const ops::Layout division = divide_by_samples(node.bound->space(), parts, largest, speeds);
        if (const RewriteRow* row = rewrite_needed(node, division, largest))
          result.push_back(
              {std::string(row->name), node.name, row->numbers(node, division, largest)});
      }
    if (!by_samples) by_feature.push_back(std::move(parts));
  }
  const auto of_features = rewrites_for_spread(
      model, request, by_feature,
      [&](NodeId node, size_t group) { return group_of[at(node)] == static_cast<int>(group); });
  result.insert(result.end(), of_features.begin(), of_features.end());
  return result;
}

Assignment assigned_to_groups(const Model& model, const PlanRequest& request, const Groups& groups,
                              double bound) {
  const int64_t largest = request.largest_micro_batch();
  const std::vector<double> speeds = request.speeds_of_parts();
  const auto layers = layers_of(model);
  std::vector<std::optional<ops::Layout>> given(at(model.nodes()));
  std::vector<Stage> stages;
  size_t layer = 0;
  int worker = 0;
  for (const Group& group : groups) {
    Stage& stage = stages.emplace_back();
    stage.parts = parts_from(worker, group.shape.workers);
    worker += group.shape.workers;
    for (; layer < at(group.end); ++layer)
      for (const NodeId node : layers[layer]) {
        stage.nodes.push_back(node);
        if (group.shape.way == Way::kSample)
          given[at(node)] = divide_by_samples(model.op(node).space(), stage.parts, largest, speeds);
      }
  }
  return spread_all(model, request, std::move(stages), bound, given);
}

}  // namespace kerf::partitioner
