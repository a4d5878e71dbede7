#include "partitioner/rewrite.h"

#include <algorithm>

namespace kerf::partitioner {
namespace {

[[noreturn]] void cannot_rewrite(const Model& model, const Rewrite& rewrite,
                                 const std::string& reason) {
  throw Error(ErrorCode::kUsage, format("{} cannot rewrite it: {}", rewrite.name, reason),
              format("{}: node {}", model.name(), rewrite.node));
}

bool replaces(const RewriteRow& row, const Node& node) {
  return row.op == node.op && (row.takes == nullptr || row.takes(node));
}

// Why the row's pieces would not compute what the node does, or divide nothing of it.
std::string why_not(const RewriteRow& row, const Node& node) {
  if (!replaces(row, node)) return "its outputs or attributes are none that the pieces have";
  std::string why = "it needs nothing whole that the pieces divide";
  for (const ops::IterationAxis& axis : node.bound->space().axes) {
    if (axis.undivided.empty()) continue;
    if (row.divides(axis)) return {};
    why = axis.undivided;
  }
  return why;
}

// The node without its last outputs that nobody reads: no pieces are made for them.
Node as_read(const Model& model, NodeId id) {
  Node node = model.node(id);
  const auto results = model.results();
  const auto is_read = [&](ValueId value) {
    return !model.uses(value).empty() ||
           ((model.names_results() || model.loss() < 0) &&
            std::any_of(results.begin(), results.end(),
                        [&](const Result& result) { return result.value == value; }));
  };
  while (node.outputs.size() > 1 && !is_read(node.outputs.back())) node.outputs.pop_back();
  return node;
}

// Replays a model, value by value, so that parameters keep their numbers and names.
class Replay {
 public:
  Replay(const Model& from, const std::vector<Rewrite>& rewrites)
      : from_(from), to_(from.name()), known_(static_cast<size_t>(from.values()), -1) {
    for (const Rewrite& rewrite : rewrites) add(rewrite);
  }

  Model made() {
    for (ValueId id = 0; id < from_.values(); ++id)
      if (const Value& value = from_.value(id); value.producer < 0)
        known(id) = to_.add_copy(value);
      else if (value.output == 0)
        add_node(value.producer);
    if (from_.names_results())
      for (const Result& result : from_.results()) to_.add_result(result.name, known(result.value));
    std::vector<Rewrite> in_order;
    for (const auto& [node, rewrite] : by_node_) in_order.push_back(*rewrite);
    to_.set_original(std::make_shared<const Model>(from_), std::move(in_order));
    return std::move(to_);
  }

 private:
  ValueId& known(ValueId id) { return known_[static_cast<size_t>(id)]; }

  void add(const Rewrite& rewrite) {
    const RewriteRow& row = find_rewrite(rewrite.name);
    const NodeId node = from_.find_node(rewrite.node);
    if (node < 0) cannot_rewrite(from_, rewrite, "the model has no such node");
    if (from_.node(node).op != row.op)
      cannot_rewrite(from_, rewrite, format("it is a {}, not a {}", from_.node(node).op, row.op));
    if (const std::string why = why_not(row, from_.node(node)); !why.empty())
      cannot_rewrite(from_, rewrite, why);
    if (!by_node_.emplace(node, &rewrite).second)
      cannot_rewrite(from_, rewrite, "it is rewritten already");
  }

  std::vector<ValueId> copy_node(const Node& node, const std::vector<ValueId>& inputs) {
    const auto outputs = static_cast<int>(node.outputs.size());
    return to_.node(to_.add_node(node.name, node.op, node.attributes, inputs, outputs)).outputs;
  }

  std::vector<ValueId> add_pieces(const Node& node, const std::vector<ValueId>& inputs,
                                  const Rewrite& rewrite) {
    try {
      return find_rewrite(rewrite.name).replace(node, inputs, rewrite.numbers, to_);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      cannot_rewrite(from_, rewrite, error.what());
    }
  }

  void add_node(NodeId id) {
    const auto rewrite = by_node_.find(id);
    const Node node = rewrite == by_node_.end() ? from_.node(id) : as_read(from_, id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input < 0 ? -1 : known(input));
    const NodeId first = to_.nodes();
    const std::vector<ValueId> outputs = rewrite == by_node_.end()
                                             ? copy_node(node, inputs)
                                             : add_pieces(node, inputs, *rewrite->second);
    KERF_CHECK(outputs.size() >= node.outputs.size(), "{} of {} outputs of {} are replaced",
               outputs.size(), node.outputs.size(), node.name);
    for (NodeId made = first; made < to_.nodes(); ++made) to_.set_key(made, node.key);
    for (size_t i = 0; i < node.outputs.size(); ++i) known(node.outputs[i]) = outputs[i];
  }

  const Model& from_;
  Model to_;
  std::vector<ValueId> known_;  // by value of `from_`: what stands for it
  std::map<NodeId, const Rewrite*> by_node_;
};

// Whether a share divides an axis that the node needs whole.
bool divides_whole(const ops::IterationSpace& space, const ops::Share& share, int64_t largest) {
  const ops::Shape extents = space.extents().with_batch(largest);
  for (size_t i = 0; i < space.axes.size(); ++i)
    if (!space.axes[i].undivided.empty() &&
        !share.box.axes[i].normalized(extents[static_cast<int>(i)]).is_all())
      return true;
  return false;
}

}  // namespace

const RewriteRow& find_rewrite(const std::string& name) {
  std::vector<std::string_view> names;
  for (const RewriteRow& row : rewrites()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw Error(ErrorCode::kUsage, format("there is no rewrite \"{}\"; the rewrites are {}", name,
                                        fmt::join(names, ", ")));
}

ops::IterationSpace space_with_rewrites(const Node& node) {
  ops::IterationSpace space = node.bound->space();
  for (const RewriteRow& row : rewrites())
    if (replaces(row, node))
      for (ops::IterationAxis& axis : space.axes)
        if (row.divides(axis)) axis.undivided.clear();
  return space;
}

const RewriteRow* rewrite_needed(const Node& node, const ops::Layout& division, int64_t largest) {
  const auto any = [&](const ops::IterationSpace& space) {
    return std::any_of(
        division.shares.begin(), division.shares.end(),
        [&](const ops::Share& share) { return divides_whole(space, share, largest); });
  };
  if (!any(node.bound->space()) || any(space_with_rewrites(node))) return nullptr;
  for (const RewriteRow& row : rewrites())
    if (replaces(row, node)) return &row;
  return nullptr;
}

std::vector<Rewrite> rewrites_needed(const Model& model,
                                     const std::vector<std::optional<ops::Layout>>& divisions,
                                     int64_t largest) {
  std::vector<Rewrite> result;
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const auto& division = divisions[static_cast<size_t>(id)];
    if (!division) continue;
    const Node& node = model.node(id);
    if (const RewriteRow* row = rewrite_needed(node, *division, largest))
      result.push_back({std::string(row->name), node.name, row->numbers(node, *division, largest)});
  }
  return result;
}

Model rewritten(const Model& model, const std::vector<Rewrite>& rewrites) {
  if (rewrites.empty()) return model;
  KERF_CHECK(model.original() == nullptr, "{} is rewritten already", model.name());
  return Replay(model, rewrites).made();
}

std::vector<std::optional<ops::Layout>> divide_pieces(
    const Model& model, const std::vector<std::optional<ops::Layout>>& of_original,
    int64_t largest) {
  const Model& original = *model.original();
  std::vector<std::optional<ops::Layout>> divisions(static_cast<size_t>(model.nodes()));
  std::map<std::string, const Rewrite*> by_node;
  for (const Rewrite& rewrite : model.rewrites()) by_node[rewrite.node] = &rewrite;
  for (NodeId id = 0; id < original.nodes(); ++id) {
    const Node& node = original.node(id);
    const std::optional<ops::Layout>& division = of_original[static_cast<size_t>(id)];
    if (!division) continue;
    DividedPieces pieces{{node.name, *division}};
    if (const auto rewrite = by_node.find(node.name); rewrite != by_node.end())
      pieces = find_rewrite(rewrite->second->name)
                   .divide(as_read(original, id), rewrite->second->numbers, *division, largest);
    for (auto& [name, layout] : pieces)
      divisions[static_cast<size_t>(model.find_node(name))] = std::move(layout);
  }
  return divisions;
}

std::vector<Rewrite> rewrites_in(const Json& plan, const std::string& origin) {
  std::vector<Rewrite> result;
  if (!plan.is_object() || !plan.contains("rewrites")) return result;
  for (const Json& one : json_array(plan, "rewrites", origin)) {
    const std::string where = format("{}: rewrites[{}]", origin, result.size());
    if (!one.is_object()) throw Error(ErrorCode::kUsage, "must be an object", where);
    Rewrite& rewrite = result.emplace_back();
    rewrite.name = json_string(one, "rewrite", where);
    rewrite.node = json_string(one, "node", where);
    if (!one.contains("numbers")) continue;
    for (const Json& number : json_array(one, "numbers", where)) {
      if (!number.is_number_integer())
        throw Error(ErrorCode::kUsage, "\"numbers\" must be an array of integers", where);
      rewrite.numbers.push_back(number.get<int64_t>());
    }
  }
  return result;
}

std::vector<Rewrite> rewrites_of_plan(const std::string& text, const std::string& origin) {
  return rewrites_in(parse_json(text, origin), origin);
}

}  // namespace kerf::partitioner
