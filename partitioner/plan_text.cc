// Reads plans. Every member is checked for presence, type and range, no other member is accepted,
// and the result must be sound for the model: a plan may come from anywhere.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>

#include "partitioner/plan.h"
#include "partitioner/plan_json.h"

namespace kerf::partitioner {

namespace {

[[noreturn]] void fail(const std::string& where, std::string message) {
  throw Error(ErrorCode::kUsage, std::move(message), where);
}

// `json` is an object whose members all are among `known`.
void check_members(const Json& json, std::initializer_list<std::string_view> known,
                   const std::string& where) {
  if (!json.is_object()) fail(where, "must be an object");
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(where, format("\"{}\" is not a member of a plan; here may be: {}", key,
                         fmt::join(known, ", ")));
}

int json_small(const Json& json, const std::string& key, int least, const std::string& where) {
  const int64_t value = json_int(json, key, where);
  if (value < least || value > std::numeric_limits<int>::max())
    fail(where, format("\"{}\" is {}, but must be at least {} and fit 32 bits", key, value, least));
  return static_cast<int>(value);
}

double json_finite(const Json& json, const std::string& key, const std::string& where) {
  const double value = json_number(json, key, where);
  if (!std::isfinite(value) || value < 0) fail(where, format("\"{}\" must not be negative", key));
  return value;
}

class Reader {
 public:
  Reader(const Model& model, const std::string& origin) : model_(model), origin_(origin) {}

  Plan read(const Json& json) {
    check_header(json);
    check_members(
        json,
        {"kerf_plan", "model", "fingerprint", "cut", "batch", "micro_batches", "schedule",
         "binding", "stages", "layouts", "divisions", "routes", "workers", "bottleneck", "bound", "checksum"},
        origin_);
    Plan plan;
    plan.model = json_string(json, "model", origin_);
    plan.fingerprint = json_string(json, "fingerprint", origin_);
    plan.cut = read_cut(json);
    plan.batch = json_int(json, "batch", origin_);
    plan.micro_batches = json_small(json, "micro_batches", 1, origin_);
    plan.schedule = json_string(json, "schedule", origin_);
    plan.binding = read_numbers(json_array(json, "binding", origin_), at("binding"));
    each(json, "stages", [&](const Json& one, const std::string& where) {
      plan.stages.push_back(read_stage(one, where));
    });
    plan.layouts = read_layouts(json_at(json, "layouts", origin_));
    plan.division = read_divisions(json, plan);
    each(json, "routes", [&](const Json& one, const std::string& where) {
      plan.routes.push_back(read_route(one, static_cast<int>(plan.routes.size()), where));
    });
    each(json, "workers", [&](const Json& one, const std::string& where) {
      plan.workers.push_back(read_worker(one, where));
    });
    plan.bottleneck = json_finite(json, "bottleneck", origin_);
    plan.bound = json_finite(json, "bound", origin_);
    return plan;
  }

 private:
  std::string at(const std::string& path) const { return format("{}: {}", origin_, path); }

  template <class Take>
  void each(const Json& json, const std::string& key, const Take& take) const {
    size_t number = 0;
    for (const Json& one : json_array(json, key, origin_))
      take(one, at(format("{}[{}]", key, number++)));
  }

  // What must be right before anything else can be understood.
  void check_header(const Json& json) const {
    if (!json.is_object() || !json.contains("kerf_plan"))
      fail(origin_,
           "this is not a plan of kerf (\"kerf_plan\" is missing); write one with kerf plan "
           "MODEL --out FILE");
    const int64_t version = json_int(json, "kerf_plan", origin_);
    if (version != kPlanVersion)
      fail(origin_,
           format("this plan has version {}, this kerf reads version {}; write it anew with "
                  "kerf plan MODEL --out FILE",
                  version, kPlanVersion));
    const std::string name = json_string(json, "model", origin_);
    const std::string fingerprint = json_string(json, "fingerprint", origin_);
    if (name != model_.name() || fingerprint != model_.fingerprint())
      fail(origin_,
           format(
               "this plan is for another model: {} with fingerprint {}, not {} with {}; write one "
               "with kerf plan {} --out FILE",
               name, fingerprint, model_.name(), model_.fingerprint(), model_.name()));
  }

  Cut read_cut(const Json& json) const {
    const std::string name = json_string(json, "cut", origin_);
    try {
      return parse_cut(name);
    } catch (const Error& error) {
      fail(at("cut"), error.message());
    }
  }

  static std::vector<int> read_numbers(const Json& array, const std::string& where) {
    std::vector<int> result;
    for (const Json& one : array) {
      if (!one.is_number_integer()) fail(where, "must be an array of integers");
      const auto value = one.get<int64_t>();
      if (value < 0 || value > std::numeric_limits<int>::max())
        fail(where, format("{} is no number of a part or worker", value));
      result.push_back(static_cast<int>(value));
    }
    return result;
  }

  NodeId read_node(const Json& name, const std::string& where) const {
    if (!name.is_string()) fail(where, "the name of a node must be a string");
    const NodeId node = model_.find_node(name.get<std::string>());
    if (node < 0)
      fail(where, format("{} has no node \"{}\"", model_.name(), name.get<std::string>()));
    return node;
  }

  Stage read_stage(const Json& json, const std::string& where) const {
    check_members(json, {"parts", "nodes", "interleaved"}, where);
    Stage stage;
    if (const auto found = json.find("interleaved"); found != json.end()) {
      if (!found->is_boolean()) fail(where, "\"interleaved\" must be true or false");
      stage.interleaved = found->get<bool>();
    }
    stage.parts = read_numbers(json_array(json, "parts", where), where + ".parts");
    for (const Json& name : json_array(json, "nodes", where))
      stage.nodes.push_back(read_node(name, where + ".nodes"));
    return stage;
  }

  std::vector<ops::Layout> read_layouts(const Json& json) const {
    if (!json.is_object()) fail(at("layouts"), "must be an object");
    std::vector<ops::Layout> layouts(static_cast<size_t>(model_.values()));
    for (const auto& [name, shares] : json.items()) {
      const std::string where = at(format("layouts.{}", name));
      const ValueId value = model_.find_value(name);
      if (value < 0) fail(where, format("{} has no value of this name", model_.name()));
      if (!shares.is_array()) fail(where, "must be an array of shares");
      for (const Json& share : shares)
        layouts[static_cast<size_t>(value)].shares.push_back(
            read_share(share, model_.value(value).spec.shape.rank(), where));
    }
    for (ValueId value = 0; value < model_.values(); ++value)
      if (!json.contains(model_.value(value).name))
        fail(at("layouts"), format("\"{}\" is missing", model_.value(value).name));
    return layouts;
  }

  // What each node computes where: said, or such that its first output has its layout.
  Division read_divisions(const Json& json, const Plan& plan) const {
    Division division;
    division.largest = (plan.batch + plan.micro_batches - 1) / plan.micro_batches;
    division.nodes.resize(static_cast<size_t>(model_.nodes()));
    const Json said = json.contains("divisions") ? json["divisions"] : Json::object();
    if (!said.is_object()) fail(at("divisions"), "must be an object");
    for (const auto& [name, shares] : said.items()) {
      const std::string where = at(format("divisions.{}", name));
      const NodeId node = model_.find_node(name);
      if (node < 0) fail(where, format("{} has no node of this name", model_.name()));
      if (!shares.is_array()) fail(where, "must be an array of shares");
      const auto rank = static_cast<int>(model_.op(node).space().axes.size());
      for (const Json& share : shares)
        division.nodes[static_cast<size_t>(node)].shares.push_back(read_share(share, rank, where));
    }
    for (NodeId node = 0; node < model_.nodes(); ++node) {
      const std::string& name = model_.node(node).name;
      if (said.contains(name)) continue;
      const ops::Layout& output = plan.layouts[static_cast<size_t>(model_.node(node).outputs[0])];
      check_boxes(node, output);
      auto follows = division_of(model_, node, output, division.largest);
      if (!follows)
        fail(at("layouts"), format("node {} cannot give {} {}", name, model_.node(node).outputs[0],
                                   ops::describe(output)));
      division.nodes[static_cast<size_t>(node)] = std::move(*follows);
    }
    return division;
  }

  // Boxes beyond the tensor are named here, where its name is known.
  void check_boxes(NodeId node, const ops::Layout& layout) const {
    const Value& value = model_.value(model_.node(node).outputs[0]);
    for (const ops::Share& share : layout.shares)
      for (int axis = 0; axis < value.spec.shape.rank(); ++axis) {
        const ops::IndexSet& set = share.box.axes[static_cast<size_t>(axis)];
        const int64_t extent = value.spec.shape[axis];
        if (!set.is_all() && !set.empty() && extent >= 0 && set.ranges().back().end > extent)
          fail(at(format("layouts.{}", value.name)),
               format("part {} holds {} of axis {}, whose indices end at {}", share.part,
                      ops::to_string(set), axis, extent - 1));
      }
  }

  ops::Share read_share(const Json& json, int rank, const std::string& where) const {
    check_members(json, {"part", "box", "partial", "slices"}, where);
    ops::Share share;
    share.part = json_small(json, "part", 0, where);
    share.box = read_box(json_at(json, "box", where), rank, where + ".box");
    if (const auto partial = json.find("partial"); partial != json.end()) {
      if (!partial->is_boolean() || partial->get<bool>())
        fail(where, "\"partial\" is said by \"slices\": which slices are summed");
    }
    if (json.contains("slices"))
      for (const Json& set : json_array(json, "slices", where)) {
        if (!set.is_string()) fail(where, "an index set must be a string, as \"0-3,7\"");
        share.slices.push_back(ops::parse_index_set(set.get<std::string>(), where));
      }
    return share;
  }

  ops::Box read_box(const Json& json, int rank, const std::string& where) const {
    if (json.is_string() && json.get<std::string>() == "all") return ops::Box::whole(rank);
    if (!json.is_array() || json.size() != static_cast<size_t>(rank))
      fail(where, format("must be \"all\" or an array of {} index sets, one per axis", rank));
    ops::Box box;
    for (const Json& axis : json) {
      if (!axis.is_string()) fail(where, "an index set must be a string, as \"0-3,7\"");
      box.axes.push_back(ops::parse_index_set(axis.get<std::string>(), where));
    }
    return box;
  }

  Route read_route(const Json& json, int id, const std::string& where) const {
    check_members(json, {"value", "direction", "from", "to", "pieces"}, where);
    Route route;
    route.id = id;
    const std::string name = json_string(json, "value", where);
    route.value = model_.find_value(name);
    if (route.value < 0) fail(where, format("{} has no value \"{}\"", model_.name(), name));
    const std::string direction = json_string(json, "direction", where);
    if (direction != "forward" && direction != "backward")
      fail(where, "\"direction\" must be \"forward\" or \"backward\"");
    route.gradient = direction == "backward";
    route.from = json_small(json, "from", 0, where);
    route.to = json_small(json, "to", 0, where);
    for (const Json& piece : json_array(json, "pieces", where))
      route.pieces.push_back(read_piece(route.value, piece, where + ".pieces"));
    return route;
  }

  Piece read_piece(ValueId value, const Json& json, const std::string& where) const {
    check_members(json, {"box", "contributions"}, where);
    Piece piece;
    piece.box = read_box(json_at(json, "box", where), model_.value(value).spec.shape.rank(), where);
    if (!json.contains("contributions")) return piece;
    for (const Json& one : json_array(json, "contributions", where)) {
      check_members(one, {"node", "input", "box_number"}, where);
      Contribution c;
      c.use.node = read_node(json_at(one, "node", where), where);
      c.use.input = json_small(one, "input", 0, where);
      c.box_number = json_small(one, "box_number", 0, where);
      piece.contributions.push_back(c);
    }
    return piece;
  }

  static WorkerPrediction read_worker(const Json& json, const std::string& where) {
    check_members(json,
                  {"worker", "forward_flops", "seconds", "weight_bytes", "activation_bytes",
                   "peak_bytes", "messages", "bytes_in", "bytes_out"},
                  where);
    WorkerPrediction worker;
    worker.worker = json_small(json, "worker", 0, where);
    worker.forward_flops = json_finite(json, "forward_flops", where);
    worker.seconds = json_finite(json, "seconds", where);
    worker.weight_bytes = json_int(json, "weight_bytes", where);
    worker.activation_bytes = json_int(json, "activation_bytes", where);
    worker.peak_bytes = json_int(json, "peak_bytes", where);
    worker.messages = json_int(json, "messages", where);
    worker.bytes_in = json_int(json, "bytes_in", where);
    worker.bytes_out = json_int(json, "bytes_out", where);
    return worker;
  }

  const Model& model_;
  const std::string& origin_;
};

void check_checksum(const Model& model, const Plan& plan, const Json& json,
                    const std::string& origin) {
  if (!json.contains("checksum")) return;
  if (json_string(json, "checksum", origin) == plan_checksum(plan_to_json(model, plan))) return;
  fail(origin,
       "the checksum does not match: the plan was changed after it was written; write it anew "
       "with kerf plan MODEL --out FILE, or remove the line \"checksum\" if the change is "
       "meant");
}

}  // namespace

Plan read_plan(const Model& model, const std::string& text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  Plan plan = Reader(model, origin).read(json);
  check_checksum(model, plan, json, origin);
  const std::vector<std::string> problems = validate(model, plan);
  if (problems.empty()) return plan;
  const std::string more =
      problems.size() == 1 ? "" : format(" (and {} more problems)", problems.size() - 1);
  fail(origin, format("this plan is not sound: {}{}; write it anew with kerf plan MODEL --out FILE",
                      problems.front(), more));
}

}  // namespace kerf::partitioner
