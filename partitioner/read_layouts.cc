// Reads layouts and divisions of a plan: shares, boxes and index sets.
#include "partitioner/plan_reader.h"
#include "partitioner/unsound.h"

namespace kerf::partitioner {

namespace {

ops::IndexSet read_index_set(const Json& json, const std::string& where) {
  if (!json.is_string()) refuse_member(where, "an index set must be a string, as \"0-3,7\"");
  return ops::parse_index_set(json.get<std::string>(), where);
}

// An array with at most one share for each part that a plan can have.
void check_shares(const Json& json, const std::string& where) {
  if (!json.is_array()) refuse_member(where, "must be an array of shares");
  if (json.size() > kMostParts)
    refuse_member(
        where, format("has {} shares, but a plan has at most {} parts", json.size(), kMostParts));
}

// Of a tensor, or of iterations, of these extents.
ops::Share read_share(const Json& json, const ops::Shape& shape, const std::string& where) {
  ops::Share share;
  share.part = json_small(json, "part", 0, where);
  share.box = read_box(json_at(json, "box", where), shape.rank(), where + ".box");
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const ops::IndexSet& set = share.box.axes[static_cast<size_t>(axis)];
    if (!set.is_all() && !set.empty() && set.ranges().back().end > shape[axis])
      throw Unsound(format("part {} holds {} of axis {}, whose indices end at {}", share.part,
                           ops::to_string(set), axis, shape[axis] - 1),
                    where);
  }
  return share;
}

std::vector<ops::IndexSet> read_slices(const Json& json, const std::string& where) {
  if (json.contains("partial") && json_bool(json, "partial", where))
    refuse_member(where, "a partial sum names the \"slices\" that it sums");
  std::vector<ops::IndexSet> slices;
  if (!json.contains("slices")) return slices;
  for (const Json& set : json_array(json, "slices", where))
    slices.push_back(read_index_set(set, where));
  return slices;
}

}  // namespace

ops::Box read_box(const Json& json, int rank, const std::string& where) {
  if (json.is_string() && json.get<std::string>() == "all") return ops::Box::whole(rank);
  if (!json.is_array() || json.size() != static_cast<size_t>(rank))
    refuse_member(where,
                  format("must be \"all\" or an array of {} index sets, one per axis", rank));
  ops::Box box;
  for (const Json& axis : json) box.axes.push_back(read_index_set(axis, where));
  return box;
}

std::vector<ops::Layout> read_layouts(const PlanFile& file, int64_t largest,
                                      std::vector<bool>& left_out) {
  const Model& model = file.model;
  const Json json = file.json.contains("layouts") ? file.json["layouts"] : Json::object();
  if (!json.is_object()) refuse_member(file.at("layouts"), "must be an object");
  std::vector<ops::Layout> layouts(static_cast<size_t>(model.values()));
  left_out.assign(layouts.size(), true);
  for (const auto& [name, shares] : json.items()) {
    const std::string where = file.at(format("layouts.{}", name));
    const ValueId value = model.find_value(name);
    if (value < 0) throw Unsound(format("{} has no value of this name", model.name()), where);
    check_shares(shares, where);
    left_out[static_cast<size_t>(value)] = false;
    const ops::Shape shape = model.value(value).spec.shape.with_batch(largest);
    for (const Json& share : shares) {
      check_members(share, {"part", "box", "partial", "slices"}, where);
      ops::Share& read =
          layouts[static_cast<size_t>(value)].shares.emplace_back(read_share(share, shape, where));
      read.box = ops::normalized(read.box, shape);
      read.slices = read_slices(share, where);
    }
  }
  return layouts;
}

std::vector<ops::Layout> read_divisions(const PlanFile& file, int64_t largest) {
  const Model& model = file.model;
  std::vector<ops::Layout> nodes(static_cast<size_t>(model.nodes()));
  if (!file.json.contains("divisions")) return nodes;
  const Json& said = file.json["divisions"];
  if (!said.is_object()) refuse_member(file.at("divisions"), "must be an object");
  for (const auto& [name, shares] : said.items()) {
    const std::string where = file.at(format("divisions.{}", name));
    const NodeId node = file.node(Json(name), where);
    check_shares(shares, where);
    if (shares.empty())  // as one that is left out would be read
      throw Unsound(format("no part computes any of node {}; give it shares, or leave \"{}\" out "
                           "to have it divided as the cut does",
                           name, name),
                    where);
    const ops::Shape extents = model.op(node).space().extents().with_batch(largest);
    for (const Json& share : shares) {
      check_members(share, {"part", "box"}, where);
      ops::Share& read =
          nodes[static_cast<size_t>(node)].shares.emplace_back(read_share(share, extents, where));
      read.box = ops::normalized(read.box, extents);
    }
  }
  return nodes;
}

}  // namespace kerf::partitioner
