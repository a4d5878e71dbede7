// The free cut (free-neuron): any index set of any operator to any worker, as a file or a person's
// rules ask it (asked_divisions.h), or where nothing is asked by space (space.h). Nodes of which
// nothing is asked follow their input, or are divided evenly; what only moves what the data set
// gives follows its reader, so that nobody reads rows of others. One stage of all workers.
//
// Where it is asked to divide what a node needs whole, a rewrite (rewrite.h) makes pieces of the
// node that divide so; what is asked speaks of the node. A training batch normalisation of which
// nothing is asked follows samples and positions of its input that way.
#include <algorithm>

#include "partitioner/at.h"
#include "partitioner/cuts/asked_divisions.h"
#include "partitioner/cuts/features.h"
#include "partitioner/cuts/idle_parts.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/cuts/ways.h"
#include "partitioner/rewrite.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;
using Divisions = std::vector<std::optional<Layout>>;

bool follows_by_rewrite(const Node& node) {
  const auto rows = rewrites();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const RewriteRow& row) { return row.follows && row.op == node.op; });
}

// The division that follows the layout of the first input, if only a rewrite can follow it.
std::optional<Layout> follow_by_rewrite(const Model& model, NodeId id, const Division& division) {
  const Node& node = model.node(id);
  if (!follows_by_rewrite(node)) return {};
  const Value& input = model.value(node.inputs[0]);
  if (input.producer < 0) return {};
  const ops::IterationSpace& space = node.bound->space();
  Layout layout;
  for (const ops::Share& share : division.nodes[static_cast<size_t>(input.producer)].shares) {
    const ops::Box held =
        ops::output_box(model.op(input.producer), input.output, share.box, division.largest);
    const auto box =
        ops::iterations_of(space, space.inputs[0], input.spec.shape, held, division.largest);
    if (!box) return {};
    layout.shares.push_back({share.part, *box});
  }
  if (rewrite_needed(node, layout, division.largest) == nullptr) return {};
  if (!ops::check_layout(layout, space.extents().with_batch(division.largest)).empty()) return {};
  return layout;
}

// What is asked of a model that is to be rewritten, and what follows only by a rewrite.
Divisions divisions_of_original(const Model& model, const PlanRequest& request) {
  Divisions said = asked_divisions(model, request, true);
  Division division{.nodes = {}, .largest = request.largest_micro_batch()};
  division.nodes.resize(static_cast<size_t>(model.nodes()));
  const Spreading spreading(model, {.pairs = false});
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const auto at = static_cast<size_t>(node);
    if (!said[at]) said[at] = follow_by_rewrite(model, node, division);
    division.nodes[at] =
        said[at] ? *said[at] : spreading.divide(node, all_parts(request), division);
  }
  return said;
}

Divisions divisions_of_pieces(const Model& model, const PlanRequest& request) {
  const Model& original = *model.original();
  const int64_t largest = request.largest_micro_batch();
  const Divisions divisions = divisions_of_original(original, request);
  if (rewrites_needed(original, divisions, largest) != model.rewrites())
    throw Error(ErrorCode::kUsage,
                "the model was rewritten for other shares; make it anew with model_for()",
                request.shares_origin);
  return divide_pieces(model, divisions, largest);
}

bool reads_data_only(const Node& node, const Model& model) {
  return !node.inputs.empty() &&
         std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
           return input >= 0 && model.value(input).role == Role::kInput;
         });
}

// The division in which the node gives each part what its one reader reads there; nothing where
// that is not known, or cannot be.
std::optional<Layout> follow_reader(const Model& model, NodeId id, const Divisions& given,
                                    int64_t largest) {
  const Node& node = model.node(id);
  if (is_one_to_all(model, id) || !reads_data_only(node, model) || node.outputs.size() != 1)
    return {};
  const Value& output = model.value(node.outputs[0]);
  const std::vector<Use>& uses = model.uses(node.outputs[0]);
  if (uses.size() != 1 || !given[static_cast<size_t>(uses[0].node)]) return {};
  const ops::IterationSpace& space = node.bound->space();
  Layout layout;
  for (const ops::Share& share : given[static_cast<size_t>(uses[0].node)]->shares) {
    const ops::Box read = ops::input_box(model.op(uses[0].node), uses[0].input, share.box, largest);
    const auto box = ops::iterations_of(space, space.outputs[0], output.spec.shape, read, largest);
    if (!box || !ops::check_iterations(space, *box, largest).empty()) return {};
    layout.shares.push_back({share.part, *box});
  }
  if (!ops::check_layout(layout, space.extents().with_batch(largest)).empty()) return {};
  return layout;
}

Assignment assigned(const Model& model, const PlanRequest& request, const Divisions& given) {
  return spread_all(model, request, {stage_of_all(model, request)}, even_share(model, request),
                    given);
}

// The largest block, of those that this was halved to, that leaves nobody idle; 0 if none does.
int64_t block_for_all(const Model& rewritten, PlanRequest request) {
  const Model& model = rewritten.as_read();
  int64_t units = 1;
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (is_one_to_all(model, node))
      units = std::max(units, feature_units(model.op(node).space(), request.workers));
  const int64_t asked = block_of(request.steering.pattern);
  for (int64_t block = std::min(asked - 1, (units - 1) / std::max(1, request.workers - 1));
       block > 0; block /= 2) {
    request.steering.pattern = block_cyclic(block);
    const Divisions given = asked_divisions(model, request, false);
    if (idle_parts(model, request, assigned(model, request, given).division).empty()) return block;
  }
  return 0;
}

std::string why_idle(const Model& model, const PlanRequest& request, const std::vector<int>& idle) {
  const int part = idle.front();
  if (!request.shares.empty())
    return "the shares give it none; give it some, or leave its number out";
  const auto is_whole = [](const WayRule& rule) { return worker_of_whole(rule.way) >= 0; };
  const std::vector<WayRule>& ways = request.steering.ways;
  if (std::any_of(ways.begin(), ways.end(), is_whole))
    return "the ways give it none; give it some with --way, or use fewer --workers";
  const std::string& pattern = request.steering.pattern;
  if (block_of(pattern) > 0) {
    const int64_t block = block_for_all(model, request);
    return format("in blocks of {} units no operator has one for it; {}{}", block_of(pattern),
                  block > 0 ? format("use --pattern {}, or ", block_cyclic(block)) : "",
                  without_idle(request, idle));
  }
  if (pattern != "even" && has_a_slow_device(request, part, all_parts(request)))
    return format("{}; {}", kTooSlowForUnits, without_idle(request, idle));
  return format("neither rows, samples nor features are enough for it; {}",
                without_idle(request, idle));
}

}  // namespace

std::vector<Rewrite> rewrites_for_free(const Model& model, const PlanRequest& request) {
  return rewrites_needed(model, divisions_of_original(model, request),
                         request.largest_micro_batch());
}

Assignment cut_free(const Model& model, const PlanRequest& request) {
  auto given = model.original() == nullptr ? asked_divisions(model, request, false)
                                           : divisions_of_pieces(model, request);
  for (NodeId node = model.nodes(); node-- > 0;)  // readers first
    if (auto& division = given[static_cast<size_t>(node)]; !division)
      division = follow_reader(model, node, given, request.largest_micro_batch());
  Assignment assignment = assigned(model, request, given);
  if (const auto idle = idle_parts(model, request, assignment.division); !idle.empty())
    refuse_idle(request, idle.front(), why_idle(model, request, idle));
  check_ways(model, request, assignment.division);
  return assignment;
}

}  // namespace kerf::partitioner
