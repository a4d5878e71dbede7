#include "partitioner/sources.h"

#include <algorithm>

#include "partitioner/homes.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::Layout;
using ops::Share;

[[noreturn]] void refuse(const Model& model, NodeId node, const Layout& division, const Box& box,
                         const std::string& why) {
  throw Error(ErrorCode::kUsage,
              format("{} cannot compute {}: {}; its iterations are {}", model.node(node).op,
                     ops::to_string(box), why, ops::describe(division)),
              format("node {}", model.node(node).name));
}

// Per share, the number of its box, which each replica has for itself.
std::vector<int> number_boxes(const std::vector<Share>& shares, const Division& division) {
  std::vector<int> numbers;
  int next = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    int number = -1;
    for (size_t j = 0; j < i && number < 0; ++j)
      if (shares[j].box == shares[i].box &&
          division.replica_of(shares[j].part) == division.replica_of(shares[i].part))
        number = numbers[j];
    numbers.push_back(number < 0 ? next++ : number);
  }
  return numbers;
}

void add_computations(const Model& model, const Division& whole, NodeId node,
                      std::vector<Computation>& to) {
  const Layout& given = whole.nodes[at(node)];
  const int64_t largest = whole.largest;
  const ops::BoundOperator& op = model.op(node);
  const ops::Shape extents = op.space().extents().with_batch(largest);
  const Layout division = ops::normalized(given, extents);
  if (const std::string fault = ops::check_layout(division, extents); !fault.empty())
    throw Error(ErrorCode::kUsage, format("its iterations: {}", fault),
                format("node {}", model.node(node).name));
  const auto numbers = number_boxes(division.shares, whole);
  for (size_t i = 0; i < division.shares.size(); ++i) {
    const Share& share = division.shares[i];
    const std::string why = ops::check_iterations(op.space(), share.box, largest);
    if (!why.empty()) refuse(model, node, division, share.box, why);
    Computation computation{node, share.part, share.box, numbers[i]};
    for (int k = 0; k < static_cast<int>(op.inputs().size()); ++k)
      computation.inputs.push_back(ops::input_box(op, k, share.box, largest));
    for (int k = 0; k < static_cast<int>(op.outputs().size()); ++k)
      computation.outputs.push_back(ops::output_box(op, k, share.box, largest));
    to.push_back(std::move(computation));
  }
}

}  // namespace

std::vector<Computation> computations(const Model& model, const Division& division) {
  KERF_CHECK(division.nodes.size() == static_cast<size_t>(model.nodes()),
             "{} divisions for {} nodes", division.nodes.size(), model.nodes());
  std::vector<Computation> all;
  for (NodeId node = 0; node < model.nodes(); ++node) add_computations(model, division, node, all);
  return all;
}

Layout whole_division(const Model& model, NodeId node, int part) {
  return Layout::whole(part, static_cast<int>(model.op(node).space().axes.size()));
}

std::optional<Layout> division_of(const Model& model, NodeId node, const Layout& output,
                                  int64_t largest) {
  const ops::BoundOperator& op = model.op(node);
  Layout division;
  for (const Share& share : output.shares) {
    if (share.partial()) return std::nullopt;
    auto box = ops::iterations_of(op.space(), op.space().outputs[0], op.outputs()[0].shape,
                                  share.box, largest);
    if (!box) return std::nullopt;
    division.shares.push_back({share.part, std::move(*box)});
  }
  return division;
}

Sources::Sources(const Model& model, const Division& division, std::vector<int> stage_of)
    : model_(model),
      largest_(division.largest),
      replica_parts_(division.replica_parts),
      stage_of_(std::move(stage_of)),
      computations_(partitioner::computations(model, division)),
      by_node_(at(model.nodes())),
      gradients_(model) {
  for (size_t i = 0; i < computations_.size(); ++i) {
    by_node_[at(computations_[i].node)].push_back(static_cast<int>(i));
    by_part_[computations_[i].part].push_back(static_cast<int>(i));
  }
  find_needs();
  find_layouts();
  find_shared_uses();
  for (ValueId value = 0; value < model.values(); ++value)
    if (ops::is_kept(model.value(value).role)) find_homes(value);
}

const std::vector<int>& Sources::computations_on(int part) const {
  static const std::vector<int> kNone;
  const auto found = by_part_.find(part);
  return found == by_part_.end() ? kNone : found->second;
}

void Sources::find_needs() {
  for (const Computation& computation : computations_) {
    const auto& inputs = model_.node(computation.node).inputs;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Box& box = computation.inputs[k];
      if (inputs[k] < 0 || box.empty()) continue;
      const auto [found, fresh] = needs_.try_emplace({inputs[k], computation.part}, box);
      if (!fresh) found->second = ops::normalized(ops::hull(found->second, box), shape(inputs[k]));
    }
  }
}

void Sources::find_layouts() {
  layouts_.resize(at(model_.values()));
  for (const Computation& computation : computations_) {
    const ops::IterationSpace& space = model_.op(computation.node).space();
    const auto& outputs = model_.node(computation.node).outputs;
    for (size_t k = 0; k < outputs.size(); ++k)
      if (!computation.outputs[k].empty())
        layouts_[at(outputs[k])].shares.push_back(
            {computation.part, computation.outputs[k],
             ops::partial_slices(space, space.outputs[k], computation.iterations)});
  }
}

// In the order of the backward pass, so that the first that is met is there when others come.
void Sources::find_shared_uses() {
  for (const ValueId value : model_.parameters()) {
    std::vector<Use> met;  // that have an accumulator
    const auto& uses = model_.uses(value);
    for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
      if (!reaches_loss(use->node)) continue;
      const auto same = std::find_if(met.begin(), met.end(),
                                     [&](const Use& other) { return reads_alike(other, *use); });
      if (same == met.end())
        met.push_back(*use);
      else
        shared_uses_[{use->node, use->input}] = *same;
    }
  }
}

// Whether both are pieces of one node, of which every part reads the same box for either.
bool Sources::reads_alike(const Use& a, const Use& b) const {
  if (model_.node(a.node).key != model_.node(b.node).key) return false;
  const auto& of_a = computations_of(a.node);
  const auto& of_b = computations_of(b.node);
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), [&](int i, int j) {
    const Computation& one = computations_[at(i)];
    const Computation& other = computations_[at(j)];
    return one.part == other.part && one.box_number == other.box_number &&
           one.inputs[at(a.input)] == other.inputs[at(b.input)];
  });
}

Use Sources::accumulated_with(const Use& use) const {
  const auto found = shared_uses_.find({use.node, use.input});
  return found == shared_uses_.end() ? use : found->second;
}

void Sources::find_homes(ValueId value) {
  std::map<int, Reader> readers;
  std::vector<Box> summands;
  for (const Use& use : model_.uses(value)) {
    const size_t first = summands.size();  // of this use, by box number
    for (const int i : by_node_[at(use.node)]) {
      const Computation& computation = computations_[at(i)];
      const Box& box = computation.inputs[at(use.input)];
      if (box.empty()) continue;
      Reader& reader = readers[computation.part];
      reader.part = computation.part;
      if (!differentiable(value) || !reaches_loss(use.node)) continue;
      if (accumulated_with(use) != use) continue;
      const size_t number = first + at(computation.box_number);
      if (summands.size() <= number)
        summands.resize(number + 1,
                        Box{std::vector<ops::IndexSet>(box.axes.size(), ops::IndexSet::none())});
      summands[number] = box;
      reader.summands.push_back(static_cast<int>(number));
    }
  }
  std::vector<Reader> all;
  for (auto& [part, reader] : readers) {
    reader.need = *need(value, part);
    all.push_back(std::move(reader));
  }
  layouts_[at(value)] = partitioner::find_homes(all, summands, shape(value));
}

bool Sources::has_read_copy(ValueId value, int part) const {
  const Box* needed = need(value, part);
  const Share* home = held(value, part);
  return needed != nullptr && (home == nullptr || home->box != *needed);
}

// Of a parameter: from the homes. Those of what is not trained may overlap, but each reader is one.
std::vector<Source> Sources::of_kept(ValueId value, int part) const {
  const Box& needed = *need(value, part);
  if (!has_read_copy(value, part)) return {{part, ops::normalized(needed, shape(value)), {}}};
  std::vector<Source> sources;
  const auto& homes = shares(value);
  for (size_t i = 0; i < homes.size(); ++i) {
    const auto same = [&](const Share& other) { return other.box == homes[i].box; };
    if (std::any_of(homes.begin(), homes.begin() + static_cast<std::ptrdiff_t>(i), same)) continue;
    Box box = ops::normalized(ops::intersect(homes[i].box, needed), shape(value));
    if (box.empty()) continue;
    const Share* own = held(value, part);
    sources.push_back({own != nullptr && same(*own) ? part : homes[i].part, std::move(box), {}});
  }
  return sources;
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

// A box is taken from `part` itself if it holds it, else from the first part that does.
std::vector<Source> Sources::of_value(ValueId value, int part) const {
  const Box* needed = need(value, part);
  if (needed == nullptr) return {};
  if (ops::is_kept(model_.value(value).role)) return of_kept(value, part);
  return of_value(value, part, *needed);
}

std::vector<Source> Sources::of_value(ValueId value, int part, const Box& needed) const {
  std::vector<Source> sources;
  const Value& v = model_.value(value);
  const auto& all = by_node_[at(v.producer)];
  int next = 0;  // box number that was not seen yet
  const int own = box_number_on(v.producer, part);
  for (const int i : all) {
    const Computation& computation = computations_[at(i)];
    if (computation.box_number != next) continue;
    ++next;
    if (!one_replica(computation.part, part)) continue;
    const Box& held_box = computation.outputs[at(v.output)];
    if (held_box.empty()) continue;
    const Box box = ops::normalized(ops::intersect(held_box, needed), shape(value));
    if (box.empty()) continue;
    Source source{own == computation.box_number ? part : computation.part, box, {}};
    if (held(value, computation.part)->partial())
      source.contributions = {{{v.producer, v.output}, computation.box_number}};
    sources.push_back(std::move(source));
  }
  return sources;
}

// Of the node's box that `part` computes; -1 if it computes none.
int Sources::box_number_on(NodeId node, int part) const {
  for (const int i : by_node_[at(node)])
    if (computations_[at(i)].part == part) return computations_[at(i)].box_number;
  return -1;
}

// Box number -> the lowest part that computes it.
std::vector<int> Sources::lowest_makers(NodeId node) const {
  std::vector<int> lowest;
  for (const int i : by_node_[at(node)]) {
    const Computation& computation = computations_[at(i)];
    const size_t number = at(computation.box_number);
    if (lowest.size() <= number) lowest.resize(number + 1, computation.part);
    lowest[number] = std::min(lowest[number], computation.part);
  }
  return lowest;
}

std::vector<Source> Sources::of_gradient(ValueId value, int part, const Box& wanted) const {
  std::vector<Source> sources;
  const bool kept = ops::is_kept(model_.value(value).role);
  const auto& uses = model_.uses(value);
  for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
    if (!reaches_loss(use->node) || accumulated_with(*use) != *use) continue;
    int next = 0;  // box number that was not seen yet
    const int own = box_number_on(use->node, part);
    const std::vector<int> lowest = lowest_makers(use->node);
    for (const int i : by_node_[at(use->node)]) {
      const Computation& computation = computations_[at(i)];
      if (computation.box_number != next) continue;
      ++next;
      if (!kept && !one_replica(computation.part, part)) continue;
      const Box& read = computation.inputs[at(use->input)];
      if (read.empty()) continue;
      const Box box = ops::normalized(ops::intersect(read, wanted), shape(value));
      if (box.empty()) continue;
      const int number = computation.box_number;
      sources.push_back({own == number ? part : lowest[at(number)], box, {{*use, number}}});
    }
  }
  return sources;
}

}  // namespace kerf::partitioner
