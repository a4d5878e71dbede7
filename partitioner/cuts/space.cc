#include "partitioner/cuts/space.h"

#include <algorithm>
#include <set>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/rewrite.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;

constexpr int64_t kRowsPerWorker = 4;  // of an image that is read: fewer are mostly halo

bool is_image(const ops::Shape& shape) { return shape.rank() >= 4; }

// Of an operand's axes the one that follows this iteration axis alone; -1 if none does.
int operand_axis(const ops::OperandMap& map, int iteration_axis) {
  for (size_t i = 0; i < map.axes.size(); ++i)
    if (map.axes[i].axes == std::vector<int>{iteration_axis} && map.axes[i].offset == 0 &&
        map.axes[i].segments.empty())
      return static_cast<int>(i);
  return -1;
}

int first_space_axis(const ops::IterationSpace& space, const ops::OperandMap& map) {
  for (const ops::OperandAxis& each : map.axes)
    if (each.axes.size() == 1)
      if (const ops::IterationAxis& axis = space.axes[at(each.axes[0])];
          axis.kind == ops::AxisKind::kSpace && axis.undivided.empty() && axis.unit == 1)
        return each.axes[0];
  return -1;
}

// The one that an operand's rows are summed along; -1 if it is none that can be divided.
int summed_axis(const ops::IterationSpace& space, const ops::OperandMap& map) {
  if (map.axes.empty() || map.axes.back().axes.size() != 1) return -1;
  const int axis = map.axes.back().axes[0];
  const ops::IterationAxis& found = space.axes[at(axis)];
  const bool divides = found.kind == ops::AxisKind::kSummed && found.undivided.empty();
  return divides && found.unit == 1 && operand_axis(map, axis) >= 0 ? axis : -1;
}

class BySpace {
 public:
  BySpace(const Model& model, const PlanRequest& request)
      : model_(model),
        request_(request),
        largest_(request.largest_micro_batch()),
        parts_(all_parts(request)),
        rows_(at(model.nodes()), -1),
        begins_(at(model.nodes())) {
    for (const Result& result : model.results()) results_.insert(result.value);
    for (NodeId node = 0; node < model.nodes(); ++node)
      if (request.workers > 1) rows_[at(node)] = row_axis(node);
    for (NodeId node = model.nodes(); node-- > 0;)  // readers first
      if (rows_[at(node)] >= 0) begins_[at(node)] = begins_of(node);
  }

  bool any() const {
    return std::any_of(rows_.begin(), rows_.end(), [](int axis) { return axis >= 0; });
  }

  // Of what spreads over the parts, what a free cut would divide otherwise by itself is given.
  std::vector<std::optional<Layout>> divisions(bool rewriting) const {
    SpreadRules rules{.pairs = request_.pairs};
    rules.by_rewrites = rewriting;
    const Spreading spreading(model_, rules);
    std::vector<std::optional<Layout>> result(at(model_.nodes()));
    Division division{.nodes = {}, .largest = largest_};
    for (NodeId node = 0; node < model_.nodes(); ++node) {
      std::optional<Layout>& given = result[at(node)];
      given = by_place(node, division);
      division.nodes.push_back(given ? *given : spreading.divide(node, parts_, division));
      if (is_one_to_all(model_, node) || needs_rewrite(node, division.nodes.back()))
        given = division.nodes.back();
    }
    return result;
  }

 private:
  // By rows or by samples where it is an image; by its inputs where these lie by sample, perhaps.
  std::optional<Layout> by_place(NodeId node, const Division& division) const {
    if (rows_[at(node)] >= 0) return by_rows(node);
    if (is_image(model_.op(node).outputs()[0].shape) || only_moves_images(node))
      return by_samples(node);
    return request_.workers > 1 && request_.pairs ? by_inputs(node, division) : std::nullopt;
  }

  // The iteration axis to divide: what has the rows of its input, wherever a transpose put them, or
  // of the data the first axis of space; -1 where the node is not divided by rows.
  int row_axis(NodeId id) const {
    const Node& node = model_.node(id);
    const ops::IterationSpace space = space_with_rewrites(node);
    int axis = -1;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] < 0) continue;
      const Value& input = model_.value(node.inputs[k]);
      if (!is_image(input.spec.shape) || !input.spec.shape.batched()) continue;
      const int found = input.producer < 0 ? first_space_axis(space, space.outputs[0])
                                           : axis_of_rows(space, space.inputs[k], node.inputs[k]);
      if (found < 0 || (axis >= 0 && found != axis)) return -1;
      axis = found;
      const int along = operand_axis(space.inputs[k], axis);
      if (along < 0 || input.spec.shape[along] < kRowsPerWorker * request_.workers) return -1;
    }
    const bool enough = axis >= 0 && space.axes[at(axis)].extent >= request_.workers;
    return enough && !sums_what_is_given(id, space, axis) ? axis : -1;
  }

  // Whether rows are summed over in what the model gives, of which no part may have a partial sum.
  bool sums_what_is_given(NodeId id, const ops::IterationSpace& space, int axis) const {
    if (model_.loss() >= 0) return false;
    const std::vector<ValueId>& outputs = model_.node(id).outputs;
    for (size_t k = 0; k < outputs.size(); ++k)
      if (results_.contains(outputs[k]) && !ops::has_axis(space.outputs[k], axis)) return true;
    return false;
  }

  // The iteration axis that an operand's rows follow; -1 if its producer is not divided by rows.
  int axis_of_rows(const ops::IterationSpace& space, const ops::OperandMap& map,
                   ValueId value) const {
    const NodeId producer = model_.value(value).producer;
    if (rows_[at(producer)] < 0) return -1;
    const ops::OperandMap& made =
        model_.op(producer).space().outputs[at(model_.value(value).output)];
    const int rows = operand_axis(made, rows_[at(producer)]);
    if (rows < 0 || map.axes[at(rows)].axes.size() != 1) return -1;
    const int axis = map.axes[at(rows)].axes[0];
    const ops::IterationAxis& found = space.axes[at(axis)];
    return found.undivided.empty() && found.unit == 1 ? axis : -1;
  }

  // The first row of each part but part 0's: as even as what reads them leaves room for.
  std::vector<int64_t> begins_of(NodeId id) const {
    const ops::IterationSpace space = space_with_rewrites(model_.node(id));
    const int64_t rows = space.axes[at(rows_[at(id)])].extent;
    const int workers = request_.workers;
    std::vector<int64_t> begins;
    int64_t before = 0;
    for (int part = 1; part < workers; ++part) {
      int64_t low = 0;
      int64_t high = rows;
      for (const ValueId output : model_.node(id).outputs)
        for (const Use& use : model_.uses(output)) narrow(use, part, low, high);
      const int64_t even = (rows * part + workers - 1) / workers;
      before = std::clamp(std::clamp(even, low, high), before + 1, rows - (workers - part));
      begins.push_back(before);
    }
    return begins;
  }

  // To where the rows that a reader's parts read begin and end. Where readers disagree, the first
  // one has its way.
  void narrow(const Use& use, int part, int64_t& low, int64_t& high) const {
    const int axis = rows_[at(use.node)];
    if (axis < 0) return;
    const ops::OperandMap& map = model_.op(use.node).space().inputs[at(use.input)];
    const int along = operand_axis(map, axis);
    if (along < 0) return;
    const int64_t begin = begins_[at(use.node)][at(part) - 1];
    int64_t first = begin;  // that the part reads
    int64_t end = begin;    // of what the part before reads
    if (const auto& window = map.axes[at(along)].window) {
      first = begin * window->stride - window->pad;
      end =
          (begin - 1) * window->stride - window->pad + (window->kernel - 1) * window->dilation + 1;
    }
    const int64_t from = std::max(low, std::min(first, end));
    const int64_t to = std::min(high, std::max(first, end));
    if (from > to) return;
    low = from;
    high = to;
  }

  Layout by_rows(NodeId id) const {
    const ops::IterationSpace space = space_with_rewrites(model_.node(id));
    const int axis = rows_[at(id)];
    std::vector<ops::IndexSet> sets;
    int64_t begin = 0;
    for (const int64_t end : begins_[at(id)])
      sets.push_back(ops::IndexSet::range(std::exchange(begin, end), end));
    sets.push_back(ops::IndexSet::range(begin, space.axes[at(axis)].extent));
    return Layout::split(parts_, static_cast<int>(space.axes.size()), axis, sets);
  }

  // Nothing where there are too few, or it needs all of them.
  std::optional<Layout> by_samples(NodeId id) const {
    if (largest_ < request_.workers) return {};
    const ops::IterationSpace space = space_with_rewrites(model_.node(id));
    Layout layout = divide_by_samples(space, parts_, largest_);
    for (const ops::Share& share : layout.shares)
      if (!ops::check_iterations(space, share.box, largest_).empty()) return {};
    return layout;
  }

  // What makes rows of features of images that are divided by sample.
  bool only_moves_images(NodeId id) const {
    const Node& node = model_.node(id);
    if (node.inputs.size() != 1 || is_one_to_all(model_, id)) return false;
    const Value& input = model_.value(node.inputs[0]);
    return input.producer >= 0 && is_image(input.spec.shape) && rows_[at(input.producer)] < 0;
  }

  // Of features that lie by sample each part reads some, of all rows, and what parts sum up of all
  // rows is put together: instead of all features, of all rows, to all parts.
  std::optional<Layout> by_inputs(NodeId id, const Division& division) const {
    const Node& node = model_.node(id);
    if (!is_one_to_all(model_, id) || gives_a_result(node) || node.inputs[0] < 0) return {};
    const Value& input = model_.value(node.inputs[0]);
    if (input.producer < 0 || !lies_by_sample(input, division)) return {};
    const ops::IterationSpace& space = model_.op(id).space();
    const int axis = summed_axis(space, space.inputs[0]);
    if (axis < 0 || space.axes[at(axis)].extent < request_.workers) return {};
    if (!pays_by_inputs(node.inputs[0], node.outputs[0])) return {};
    return Layout::split(parts_, static_cast<int>(space.axes.size()), axis,
                         ops::split_evenly(space.axes[at(axis)].extent, request_.workers));
  }

  // Whether what a part receives takes less time so, though it comes in two rounds, of messages
  // side by side: its share of the features, then of the results, of which all others have sums.
  bool pays_by_inputs(ValueId input, ValueId output) const {
    const double share = 1 - 1.0 / request_.workers;  // that is elsewhere
    const double features = bytes_of(input) * share / request_.workers;
    return wire_price(request_, features + bytes_of(output) * share, 2) <
           wire_price(request_, bytes_of(input) * share, 1);
  }
  double bytes_of(ValueId value) const {
    const auto& spec = model_.value(value).spec;
    return static_cast<double>(spec.shape.with_batch(largest_).elements()) *
           static_cast<double>(ops::size_of(spec.dtype));
  }
  // But for losses: by classes they send little less than by samples, in one round more.
  bool needs_rewrite(NodeId node, const Layout& layout) const {
    return !model_.op(node).is_loss() &&
           rewrite_needed(model_.node(node), layout, largest_) != nullptr;
  }
  bool gives_a_result(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId output) { return results_.contains(output); });
  }
  // Whether each part has some rows of it, and all of each.
  bool lies_by_sample(const Value& value, const Division& division) const {
    const Layout& made = division.nodes[at(value.producer)];
    const auto is_of_samples = [&](const ops::Share& share) {
      const ops::Box box =
          ops::output_box(model_.op(value.producer), value.output, share.box, largest_);
      return !box.axes[0].is_all() && std::all_of(box.axes.begin() + 1, box.axes.end(),
                                                  [](const auto& set) { return set.is_all(); });
    };
    return value.spec.shape.batched() &&
           std::all_of(made.shares.begin(), made.shares.end(), is_of_samples);
  }

  const Model& model_;
  const PlanRequest& request_;
  const int64_t largest_;
  const std::vector<int> parts_;
  std::set<ValueId> results_;                 // what the model gives
  std::vector<int> rows_;                     // by node: iteration axis, or -1
  std::vector<std::vector<int64_t>> begins_;  // by node
};

}  // namespace

std::vector<std::optional<Layout>> divisions_by_space(const Model& model,
                                                      const PlanRequest& request, bool rewriting) {
  return BySpace(model, request).divisions(rewriting);
}

bool has_space_to_divide(const Model& model, const PlanRequest& request) {
  return BySpace(model, request).any();
}

}  // namespace kerf::partitioner
