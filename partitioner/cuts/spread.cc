#include "partitioner/cuts/spread.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "partitioner/at.h"
#include "partitioner/rewrite.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;

bool has_replicas(const Layout& layout) {
  for (auto share = layout.shares.begin(); share != layout.shares.end(); ++share)
    if (std::any_of(layout.shares.begin(), share,
                    [&](const ops::Share& earlier) { return earlier.box == share->box; }))
      return true;
  return false;
}

int64_t elements_of(const Model& model, ValueId value, int64_t largest) {
  return model.value(value).spec.shape.with_batch(largest).elements();
}

// Who of a value's readers needs all of it, unless it is divided by its inputs.
int64_t one_to_all_readers(const Model& model, ValueId value) {
  const std::vector<Use>& uses = model.uses(value);
  return std::count_if(uses.begin(), uses.end(),
                       [&](const Use& use) { return is_one_to_all(model, use.node); });
}

bool reads_activations(const Model& model, NodeId node) {
  for (size_t k = 0; k < model.node(node).inputs.size(); ++k)
    if (is_activation(model, node, k)) return true;
  return false;
}

}  // namespace

bool is_one_to_all(const Model& model, NodeId node) {
  return is_one_to_all(model, node, model.op(node).space());
}

Spreading::Spreading(const Model& model, const SpreadRules& rules)
    : model_(model),
      rules_(rules),
      spaces_(model, rules.by_rewrites, rules.speeds),
      ties_(spaces_) {
  for (const Result& result : model.results()) results_.insert(result.value);
}

// Whether what the pieces of a rewrite exchange is less than what they share: a row of 10 scores on
// 8 parts is sent as it is.
bool Spreading::pays(NodeId node, const Layout& layout, int64_t largest) const {
  if (!rules_.by_rewrites) return true;
  const RewriteRow* row = rewrite_needed(model_.node(node), layout, largest);
  if (row == nullptr) return true;
  int64_t shared = 1;
  const ops::IterationSpace& space = model_.op(node).space();
  const ops::Shape extents = space.extents().with_batch(largest);
  for (size_t i = 0; i < space.axes.size(); ++i)
    if (!space.axes[i].undivided.empty()) shared *= extents[static_cast<int>(i)];
  return shared >= row->exchanged * std::ssize(layout.shares);
}

// Of replicas of a loss the first speaks; the others would work for nothing.
bool Spreading::is_fit(NodeId node, const Layout& layout, int64_t largest) const {
  if (model_.op(node).is_loss() && has_replicas(layout)) return false;
  return pays(node, layout, largest);
}

std::optional<Layout> Spreading::follow_any(NodeId node, const std::vector<int>& group,
                                            const Division& division) const {
  const Following following(spaces_, ties_, group, division);
  std::optional<Layout> replicated;
  for (size_t k = 0; k < model_.node(node).inputs.size(); ++k) {
    if (!is_activation(model_, node, k)) continue;
    auto layout = following.follow(node, k);
    if (!layout || !is_fit(node, *layout, division.largest)) continue;
    if (!has_replicas(*layout)) return layout;
    if (!replicated) replicated = std::move(layout);
  }
  if (auto layout = following.follow_stretches(node);
      layout && is_fit(node, *layout, division.largest))
    return layout;
  return replicated;
}

// Elements of input k that the parts read between them where the node is divided by its features:
// each all of it, but where channels are in groups.
int64_t Spreading::read_by_features(NodeId node, size_t k, const std::vector<int>& group,
                                    int64_t largest) const {
  const ops::Shape shape = model_.value(model_.node(node).inputs[k]).spec.shape.with_batch(largest);
  if (feature_units(spaces_.of(node), static_cast<int>(group.size())) < 2)
    return std::ssize(group) * shape.elements();
  int64_t read = 0;
  for (const ops::Share& share : spaces_.by_features(node, group).shares)
    read += ops::local_shape(
                ops::input_box(model_.op(node), static_cast<int>(k), share.box, largest), shape)
                .elements();
  return read;
}

// Where the partial sums, one of each part, are fewer than what parts would read instead, and not
// only some of the parts have something to sum: half of a split, say.
std::optional<Layout> Spreading::follow_sums(NodeId node, const std::vector<int>& group,
                                             const Division& division) const {
  const Following following(spaces_, ties_, group, division);
  int64_t results = 0;
  for (const ValueId output : model_.node(node).outputs) {
    if (results_.contains(output) && !model_.op(node).is_loss()) return {};
    results += elements_of(model_, output, division.largest);
  }
  const bool product = is_one_to_all(model_, node, spaces_.of(node));
  for (size_t k = 0; k < model_.node(node).inputs.size(); ++k) {
    if (!is_activation(model_, node, k)) continue;
    const ValueId value = model_.node(node).inputs[k];
    const int64_t sharing = product ? std::max<int64_t>(1, one_to_all_readers(model_, value)) : 1;
    if (std::ssize(group) * results * sharing > read_by_features(node, k, group, division.largest))
      continue;
    auto layout = following.follow_sums(node, k);
    if (layout && std::ssize(layout->shares) >= served_by_features(node, group) &&
        is_fit(node, *layout, division.largest))
      return layout;
  }
  return {};
}

// How many of the parts would work if the node were divided by its features.
int64_t Spreading::served_by_features(NodeId node, const std::vector<int>& group) const {
  if (feature_units(spaces_.of(node), static_cast<int>(group.size())) < 2) return 0;
  return std::ssize(spaces_.by_features(node, group).shares);
}

std::optional<Layout> Spreading::by_features(NodeId node, const std::vector<int>& group,
                                             int64_t largest) const {
  if (feature_units(spaces_.of(node), static_cast<int>(group.size())) < 2) return {};
  if (auto tied = ties_.division(node, group, largest)) return tied;
  auto layout = sound(spaces_, node, spaces_.by_features(node, group), largest);
  return layout && is_fit(node, *layout, largest) ? layout : std::nullopt;
}

Layout Spreading::by_samples(NodeId node, const std::vector<int>& group, int64_t largest) const {
  auto layout = sound(spaces_, node, spaces_.by_samples(node, group, largest), largest);
  if (layout && pays(node, *layout, largest)) return *std::move(layout);
  return Layout::replicated(group, static_cast<int>(spaces_.of(node).axes.size()));
}

Layout Spreading::divide_product(NodeId node, const std::vector<int>& group,
                                 const Division& division) const {
  if (rules_.pairs)
    if (auto layout = follow_sums(node, group, division)) return *std::move(layout);
  if (auto layout = by_features(node, group, division.largest)) return *std::move(layout);
  return by_samples(node, group, division.largest);
}

Layout Spreading::divide(NodeId node, const std::vector<int>& group,
                         const Division& division) const {
  const auto rank = static_cast<int>(spaces_.of(node).axes.size());
  if (group.size() == 1) return whole_division(model_, node, group.front());
  if (is_one_to_all(model_, node, spaces_.of(node))) return divide_product(node, group, division);
  if (!reads_activations(model_, node) && !model_.op(node).is_loss())
    return Layout::replicated(group, rank);
  if (auto layout = follow_any(node, group, division)) return *std::move(layout);
  if (auto layout = follow_sums(node, group, division)) return *std::move(layout);
  if (auto layout = by_features(node, group, division.largest)) return *std::move(layout);
  return by_samples(node, group, division.largest);
}

SpreadRules rules_of(const PlanRequest& request) {
  const std::string& pattern = request.steering.pattern;
  const bool free = request.cut == Cut::kFree;
  const bool by_speed = !free || pattern.empty() || pattern == "proportional";
  // Who names shares says of what is not named that it follows, or is divided by features.
  return {.pairs = request.pairs && !free,
          .by_rewrites = false,
          .speeds = by_speed ? request.speeds_of_parts() : std::vector<double>{}};
}

DivideNode spread(const Model& model, const PlanRequest& request) {
  auto spreading = std::make_shared<const Spreading>(model, rules_of(request));
  return [spreading](NodeId node, const std::vector<int>& group, const Division& division) {
    return spreading->divide(node, group, division);
  };
}

std::vector<Rewrite> rewrites_for_spread(
    const Model& model, const PlanRequest& request, const std::vector<std::vector<int>>& groups,
    const std::function<bool(NodeId node, size_t group)>& can_be_in) {
  SpreadRules rules = rules_of(request);
  rules.by_rewrites = true;
  const Spreading spreading(model, rules);
  const int64_t largest = request.largest_micro_batch();
  // By node, all of the divisions that need the rewrite: its numbers are to do for each of them.
  std::vector<Layout> needing(at(model.nodes()));
  std::vector<const RewriteRow*> rows(at(model.nodes()));
  for (size_t g = 0; g < groups.size(); ++g) {
    Division division{.nodes = {}, .largest = largest};
    for (NodeId node = 0; node < model.nodes(); ++node) {
      division.nodes.push_back(spreading.divide(node, groups[g], division));
      const Layout& layout = division.nodes.back();
      if (!can_be_in(node, g)) continue;
      const RewriteRow* row = rewrite_needed(model.node(node), layout, largest);
      if (row == nullptr) continue;
      rows[at(node)] = row;
      needing[at(node)].shares.insert(needing[at(node)].shares.end(), layout.shares.begin(),
                                      layout.shares.end());
    }
  }
  std::vector<Rewrite> result;
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (const RewriteRow* row = rows[at(node)])
      result.push_back({std::string(row->name), model.node(node).name,
                        row->numbers(model.node(node), needing[at(node)], largest)});
  return result;
}

std::vector<int> parts_from(int first, int count) {
  std::vector<int> parts(at(count));
  std::iota(parts.begin(), parts.end(), first);
  return parts;
}

std::vector<int> all_parts(const PlanRequest& request) { return parts_from(0, request.workers); }

Stage stage_of_all(const Model& model, const PlanRequest& request) {
  return {.nodes = parts_from(0, model.nodes()), .parts = all_parts(request)};
}

double even_share(const Model& model, const PlanRequest& request) {
  double total = 0;
  for (NodeId node = 0; node < model.nodes(); ++node)
    total += node_work(model, request, node, whole_division(model, node, 0).shares[0].box).total();
  return total / request.speed.capacities.speed_of_all(request.workers_bound());
}

Assignment spread_all(const Model& model, const PlanRequest& request, std::vector<Stage> stages,
                      double bound, const std::vector<std::optional<Layout>>& given) {
  Assignment assignment;
  assignment.bound = bound;
  if (bound > 0)
    assignment.witness = format("all work over {}", plural(request.workers_bound(), "worker"));
  Division& division = assignment.division;
  division.largest = request.largest_micro_batch();
  division.nodes.resize(at(model.nodes()));
  const Spreading spreading(model, rules_of(request));
  for (const Stage& stage : stages)
    for (const NodeId node : stage.nodes)
      division.nodes[at(node)] =
          given[at(node)] ? *given[at(node)] : spreading.divide(node, stage.parts, division);
  assignment.stages = std::move(stages);
  return assignment;
}

}  // namespace kerf::partitioner
