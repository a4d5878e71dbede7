#include "partitioner/sources.h"

#include <algorithm>

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::Layout;
using ops::Share;
using ops::SplitRule;

[[noreturn]] void throw_refused(const Model& model, NodeId node, const Layout& layout,
                                const Box& box, const SplitRule& rule) {
  const std::string why = rule.kind == SplitRule::Kind::kGather
                              ? format("needs axis {} whole (gather it first)", rule.axis)
                              : rule.reason;
  throw Error(ErrorCode::kUsage,
              format("{} cannot compute {}: {}; layout {}", model.node(node).op,
                     ops::to_string(box), why, ops::describe(layout)),
              format("node {}", model.node(node).name));
}

// Per share, the number of its output box.
std::vector<int> number_boxes(const std::vector<Share>& shares) {
  std::vector<int> numbers;
  int next = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    int number = -1;
    for (size_t j = 0; j < i && !shares[i].partial && number < 0; ++j)
      if (!shares[j].partial && shares[j].box == shares[i].box) number = numbers[j];
    numbers.push_back(number < 0 ? next++ : number);
  }
  return numbers;
}

std::vector<Layout> normalized_layouts(const Model& model, std::vector<Layout> layouts) {
  KERF_CHECK(layouts.size() == static_cast<size_t>(model.values()), "{} layouts for {} values",
             layouts.size(), model.values());
  for (ValueId value = 0; value < model.values(); ++value)
    for (Share& share : layouts[static_cast<size_t>(value)].shares)
      share.box = ops::normalized(share.box, model.value(value).spec.shape);
  return layouts;
}

void add_computations(const Model& model, const Layout& layout, NodeId node,
                      std::vector<Computation>& to) {
  const auto inputs = model.input_specs(node);
  const auto output = model.output_specs(node)[0];
  const auto numbers = number_boxes(layout.shares);
  for (size_t i = 0; i < layout.shares.size(); ++i) {
    const Share& share = layout.shares[i];
    SplitRule rule = model.op(node).split(model.node(node).attributes, inputs, output, share.box);
    if (rule.kind != SplitRule::Kind::kBoxes) throw_refused(model, node, layout, share.box, rule);
    KERF_CHECK(rule.inputs.size() == inputs.size(), "{}: {} boxes for {} inputs",
               model.node(node).name, rule.inputs.size(), inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k)
      rule.inputs[k].box = ops::normalized(rule.inputs[k].box, inputs[k].shape);
    to.push_back({node, share.part, share.box, numbers[i], std::move(rule.inputs)});
  }
}

}  // namespace

std::vector<Computation> computations(const Model& model, const std::vector<Layout>& layouts) {
  const auto normal = normalized_layouts(model, layouts);
  std::vector<Computation> all;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const Layout& layout = normal[static_cast<size_t>(model.node(node).outputs[0])];
    KERF_CHECK(!layout.shares.empty(), "node {} has no layout", model.node(node).name);
    add_computations(model, layout, node, all);
  }
  return all;
}

Sources::Sources(const Model& model, std::vector<Layout> layouts)
    : model_(model),
      layouts_(normalized_layouts(model, std::move(layouts))),
      computations_(partitioner::computations(model, layouts_)),
      by_node_(at(model.nodes())) {
  for (size_t i = 0; i < computations_.size(); ++i) {
    const Computation& computation = computations_[i];
    by_node_[at(computation.node)].push_back(static_cast<int>(i));
    const auto& inputs = model.node(computation.node).inputs;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Box& box = computation.inputs[k].box;
      if (box.empty()) continue;
      const auto [found, fresh] = needs_.try_emplace({inputs[k], computation.part}, box);
      if (!fresh)
        found->second =
            ops::normalized(ops::hull(found->second, box), model.value(inputs[k]).spec.shape);
    }
  }
}

const Box* Sources::need(ValueId value, int part) const {
  const auto found = needs_.find({value, part});
  return found == needs_.end() ? nullptr : &found->second;
}

const Share* Sources::held(ValueId value, int part) const { return layouts_[at(value)].find(part); }

std::vector<int> Sources::readers(ValueId value) const {
  std::vector<int> parts;
  for (auto it = needs_.lower_bound({value, -1}); it != needs_.end() && it->first.first == value;
       ++it)
    parts.push_back(it->first.second);
  return parts;
}

bool Sources::differentiable(ValueId value) const {
  const Value& v = model_.value(value);
  return v.role == ValueRole::kActivation && v.spec.dtype == ops::DType::kFloat32 &&
         model_.loss() >= 0 && model_.needs_gradient(value);
}

std::vector<Source> Sources::of_value(ValueId value, int part) const {
  std::vector<Source> sources;
  const Box* needed = need(value, part);
  if (needed == nullptr) return sources;
  const auto& all = shares(value);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto same = [&](const Share& other) { return !other.partial && other.box == all[i].box; };
    const bool first = all[i].partial || std::find_if(all.begin(), all.end(), same) - all.begin() ==
                                             static_cast<std::ptrdiff_t>(i);
    if (!first) continue;
    const Box box =
        ops::normalized(ops::intersect(all[i].box, *needed), model_.value(value).spec.shape);
    if (box.empty()) continue;
    const bool own =
        !all[i].partial && std::any_of(all.begin(), all.end(), [&](const Share& other) {
          return same(other) && other.part == part;
        });
    sources.push_back(
        {own ? part : all[i].part, box, {}, all[i].partial ? static_cast<int>(i) : -1});
  }
  return sources;
}

// The part from which `part` gets what the computation of that output box gives; -1 if there is
// none.
int Sources::maker(NodeId node, int box_number, int part) const {
  int lowest = -1;
  for (const int i : by_node_[at(node)]) {
    const Computation& computation = computations_[at(i)];
    if (computation.box_number != box_number) continue;
    if (computation.part == part) return part;
    if (lowest < 0 || computation.part < lowest) lowest = computation.part;
  }
  return lowest;
}

std::vector<Source> Sources::of_gradient(ValueId value, int part) const {
  std::vector<Source> sources;
  const Share* share = held(value, part);
  if (share == nullptr || !differentiable(value)) return sources;
  const auto& uses = model_.uses(value);
  for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
    if (!differentiable(model_.node(use->node).outputs[0])) continue;
    int next = 0;  // box number that was not seen yet
    for (const int i : by_node_[at(use->node)]) {
      const Computation& computation = computations_[at(i)];
      if (computation.box_number != next) continue;
      ++next;
      const Box box =
          ops::normalized(ops::intersect(computation.inputs[at(use->input)].box, share->box),
                          model_.value(value).spec.shape);
      if (box.empty()) continue;
      sources.push_back({maker(use->node, computation.box_number, part),
                         box,
                         {*use, computation.box_number},
                         -1});
    }
  }
  return sources;
}

}  // namespace kerf::partitioner
