// Reads plans. Every member is checked for presence (where it was decided; what follows from the
// rest may be absent), type and range, no other member is accepted, and the result must be sound
// for the model: a plan may come from anywhere.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>

#include "partitioner/complete_plan.h"
#include "partitioner/plan.h"
#include "partitioner/plan_json.h"
#include "partitioner/rewrite.h"

namespace kerf::partitioner {

namespace {

constexpr int kMostOfRequest = 1 << 20;  // slots, threads: beyond any use

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

bool json_bool(const Json& json, const std::string& key, const std::string& where) {
  const Json& value = json_at(json, key, where);
  if (!value.is_boolean()) fail(where, format("\"{}\" must be true or false", key));
  return value.get<bool>();
}

double json_finite(const Json& json, const std::string& key, const std::string& where) {
  const double value = json_number(json, key, where);
  if (!std::isfinite(value) || value < 0) fail(where, format("\"{}\" must not be negative", key));
  return value;
}

// A name that `parse` knows; its refusal gets the place.
template <class T>
T parsed(T (*parse)(const std::string&), const std::string& name, const std::string& where) {
  try {
    return parse(name);
  } catch (const Error& error) {
    fail(where, error.message());
  }
}

class PlanReader {
 public:
  PlanReader(const Model& model, const std::string& origin) : model_(model), origin_(origin) {}

  // What the text leaves out is noted in `left_out`.
  Plan read(const Json& json, LeftOut& left_out) {
    check_header(json);
    check_members(json,
                  {"kerf_plan", "model", "fingerprint", "cut", "batch", "micro_batches", "schedule",
                   "request", "rewrites", "binding", "stages", "layouts", "divisions", "routes",
                   "workers", "bottleneck", "bound", "checksum"},
                  origin_);
    Plan plan;
    plan.model = json_string(json, "model", origin_);
    plan.fingerprint = json_string(json, "fingerprint", origin_);
    plan.cut = read_cut(json);
    plan.batch = json_int(json, "batch", origin_);
    plan.micro_batches = json_small(json, "micro_batches", 1, origin_);
    plan.schedule = json_string(json, "schedule", origin_);
    if (json.contains("request")) plan.request = read_request(json["request"]);
    plan.binding = read_numbers(json_array(json, "binding", origin_), at("binding"));
    plan.stages = read_stages(json);
    read_what_follows(json, plan, left_out);
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

  void read_what_follows(const Json& json, Plan& plan, LeftOut& left_out) const {
    plan.division.largest = largest_micro_batch(plan);
    plan.layouts = read_layouts(json.contains("layouts") ? json["layouts"] : Json::object(),
                                plan.division.largest, left_out.layouts);
    plan.division.nodes = read_divisions(json, plan.division.largest);
    left_out.routes = !json.contains("routes");
    left_out.workers = !json.contains("workers");
    left_out.bottleneck = !json.contains("bottleneck");
    left_out.bound = !json.contains("bound");
    if (!left_out.routes)
      each(json, "routes", [&](const Json& one, const std::string& where) {
        plan.routes.push_back(read_route(one, static_cast<int>(plan.routes.size()), where));
      });
    left_out.step_routes =
        !left_out.routes && plan.parts() > 1 &&
        std::none_of(plan.routes.begin(), plan.routes.end(),
                     [](const Route& route) { return route.value == kStepVector; });
    if (!left_out.workers)
      each(json, "workers", [&](const Json& one, const std::string& where) {
        plan.workers.push_back(read_worker(one, where));
      });
    if (!left_out.bottleneck) plan.bottleneck = json_finite(json, "bottleneck", origin_);
    if (!left_out.bound) plan.bound = json_finite(json, "bound", origin_);
  }

  KeptRequest read_request(const Json& json) const {
    const std::string where = at("request");
    check_members(json,
                  {"source", "memory", "objective", "slots", "mirrored", "optimizer_states",
                   "threads", "momentum"},
                  where);
    KeptRequest request;
    if (json.contains("source")) request.source = json_string(json, "source", where);
    if (json.contains("memory")) request.memory = json_int(json, "memory", where);
    if (request.memory.value_or(1) < 1) fail(where, "\"memory\" must be at least 1 byte");
    if (json.contains("objective"))
      request.minimise =
          parsed(parse_minimise, json_string(json, "objective", where), where + ".objective");
    const auto count = [&](const char* key, int least, int& to) {
      if (!json.contains(key)) return;
      to = json_small(json, key, least, where);
      if (to > kMostOfRequest)
        fail(where, format("\"{}\" is {}, but at most {}", key, to, kMostOfRequest));
    };
    count("slots", 1, request.setting.slots);
    count("optimizer_states", 0, request.setting.optimizer_states);
    count("threads", 1, request.setting.threads);
    if (json.contains("mirrored")) request.setting.mirrored = json_bool(json, "mirrored", where);
    if (json.contains("momentum")) read_momentum(json, request, where);
    return request;
  }

  // Above 0 it takes a state, and none at 0.
  static void read_momentum(const Json& json, KeptRequest& request, const std::string& where) {
    const double momentum = json_finite(json, "momentum", where);
    if (momentum < 0 || momentum >= 1)
      fail(where, format("\"momentum\" is {}, which is not within [0, 1)", momentum));
    int& states = request.setting.optimizer_states;
    if (!json.contains("optimizer_states")) states = momentum > 0 ? 1 : 0;
    if ((momentum > 0) != (states > 0))
      fail(where,
           format("\"momentum\" {} contradicts \"optimizer_states\" {}; leave one of the two out",
                  momentum, states));
    request.momentum = momentum;
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
    check_rewrites(json);
    const std::string name = json_string(json, "model", origin_);
    const std::string fingerprint = json_string(json, "fingerprint", origin_);
    if (name != model_.name() || fingerprint != model_.fingerprint())
      fail(origin_,
           format(
               "this plan is for another model: {} with fingerprint {}, not {} with {}; write one "
               "with kerf plan {} --out FILE",
               name, fingerprint, model_.name(), model_.fingerprint(), model_.name()));
  }

  void check_rewrites(const Json& json) const {
    if (json.contains("rewrites"))
      each(json, "rewrites", [&](const Json& one, const std::string& where) {
        check_members(one, {"rewrite", "node", "numbers"}, where);
      });
    if (rewrites_in(json, origin_) != model_.rewrites())
      fail(at("rewrites"),
           "these are not the rewrites that made the model; apply those that the plan names to "
           "what it was made for");
  }

  Cut read_cut(const Json& json) const {
    return parsed(parse_cut, json_string(json, "cut", origin_), at("cut"));
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

  // A stage lists its operators or names the first; then it ends where the next begins.
  std::vector<Stage> read_stages(const Json& json) const {
    std::vector<Stage> stages;
    bool first_only = false;
    each(json, "stages", [&](const Json& one, const std::string& where) {
      if (stages.empty()) first_only = one.is_object() && one.contains("first");
      check_members(one, {"parts", first_only ? "first" : "nodes", "interleaved"}, where);
      Stage& stage = stages.emplace_back();
      stage.parts = read_numbers(json_array(one, "parts", where), where + ".parts");
      if (one.contains("interleaved")) stage.interleaved = json_bool(one, "interleaved", where);
      if (first_only) {
        stage.nodes = {read_node(json_at(one, "first", where), where + ".first")};
        check_first(stages, where);
      } else {
        for (const Json& name : json_array(one, "nodes", where))
          stage.nodes.push_back(read_node(name, where + ".nodes"));
      }
    });
    if (first_only) fill(stages);
    return stages;
  }

  void check_first(const std::vector<Stage>& stages, const std::string& where) const {
    const NodeId first = stages.back().nodes[0];
    const NodeId least = stages.size() == 1 ? 0 : stages[stages.size() - 2].nodes[0] + 1;
    if (stages.size() == 1 ? first == 0 : first >= least) return;
    fail(where,
         format("\"first\" is {}, but {}", model_.node(first).name,
                stages.size() == 1 ? format("the first stage begins with {}", model_.node(0).name)
                                   : "a stage begins later in the model than the one before it"));
  }

  // Each from its first operator up to the next one's.
  void fill(std::vector<Stage>& stages) const {
    for (size_t s = 0; s < stages.size(); ++s) {
      const NodeId end = s + 1 < stages.size() ? stages[s + 1].nodes[0] : model_.nodes();
      for (NodeId node = stages[s].nodes[0] + 1; node < end; ++node)
        stages[s].nodes.push_back(node);
    }
  }

  int64_t largest_micro_batch(const Plan& plan) const {
    if (plan.batch < 1 || plan.batch > kMostRows)
      fail(origin_, format("the batch of {} rows is not within 1 and {}", plan.batch, kMostRows));
    return (plan.batch + plan.micro_batches - 1) / plan.micro_batches;
  }

  std::vector<ops::Layout> read_layouts(const Json& json, int64_t largest,
                                        std::vector<bool>& left_out) const {
    if (!json.is_object()) fail(at("layouts"), "must be an object");
    std::vector<ops::Layout> layouts(static_cast<size_t>(model_.values()));
    for (const auto& [name, shares] : json.items()) {
      const std::string where = at(format("layouts.{}", name));
      const ValueId value = model_.find_value(name);
      if (value < 0) fail(where, format("{} has no value of this name", model_.name()));
      if (!shares.is_array()) fail(where, "must be an array of shares");
      const ops::Shape& shape = model_.value(value).spec.shape;
      for (const Json& share : shares) {
        check_members(share, {"part", "box", "partial", "slices"}, where);
        ops::Share& read = layouts[static_cast<size_t>(value)].shares.emplace_back(
            read_share(share, shape.with_batch(kMostRows), where));
        read.box = ops::normalized(read.box, shape.with_batch(largest));
        read.slices = read_slices(share, where);
      }
    }
    for (ValueId value = 0; value < model_.values(); ++value)
      left_out.push_back(!json.contains(model_.value(value).name));
    return layouts;
  }

  // What each node computes, where that is said.
  std::vector<ops::Layout> read_divisions(const Json& json, int64_t largest) const {
    std::vector<ops::Layout> nodes(static_cast<size_t>(model_.nodes()));
    if (!json.contains("divisions")) return nodes;
    const Json& said = json["divisions"];
    if (!said.is_object()) fail(at("divisions"), "must be an object");
    for (const auto& [name, shares] : said.items()) {
      const std::string where = at(format("divisions.{}", name));
      const NodeId node = read_node(Json(name), where);
      if (!shares.is_array()) fail(where, "must be an array of shares");
      const ops::Shape extents = model_.op(node).space().extents().with_batch(largest);
      for (const Json& share : shares) {
        check_members(share, {"part", "box"}, where);
        ops::Share& read =
            nodes[static_cast<size_t>(node)].shares.emplace_back(read_share(share, extents, where));
        read.box = ops::normalized(read.box, extents);
      }
    }
    return nodes;
  }

  // Of a tensor, or of iterations, of these extents.
  ops::Share read_share(const Json& json, const ops::Shape& shape, const std::string& where) const {
    ops::Share share;
    share.part = json_small(json, "part", 0, where);
    share.box = read_box(json_at(json, "box", where), shape.rank(), where + ".box");
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const ops::IndexSet& set = share.box.axes[static_cast<size_t>(axis)];
      if (!set.is_all() && !set.empty() && set.ranges().back().end > shape[axis])
        fail(where, format("part {} holds {} of axis {}, whose indices end at {}", share.part,
                           ops::to_string(set), axis, shape[axis] - 1));
    }
    return share;
  }

  static std::vector<ops::IndexSet> read_slices(const Json& json, const std::string& where) {
    if (json.contains("partial") && json_bool(json, "partial", where))
      fail(where, "a partial sum names the \"slices\" that it sums");
    std::vector<ops::IndexSet> slices;
    if (!json.contains("slices")) return slices;
    for (const Json& set : json_array(json, "slices", where)) {
      if (!set.is_string()) fail(where, "an index set must be a string, as \"0-3,7\"");
      slices.push_back(ops::parse_index_set(set.get<std::string>(), where));
    }
    return slices;
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
    check_members(json, {"value", "direction", "leg", "from", "to", "pieces"}, where);
    Route route;
    route.id = id;
    const std::string name = json_string(json, "value", where);
    route.value = model_.find_value(name);
    if (route.value < 0 && name != value_name(model_, Route{}))
      fail(where, format("{} has no value \"{}\"", model_.name(), name));
    const std::string direction = json_string(json, "direction", where);
    if (direction != "forward" && direction != "backward")
      fail(where, "\"direction\" must be \"forward\" or \"backward\"");
    route.gradient = direction == "backward";
    if (json.contains("leg")) route.leg = parse_leg(json_string(json, "leg", where), where);
    route.from = json_small(json, "from", 0, where);
    route.to = json_small(json, "to", 0, where);
    for (const Json& piece : json_array(json, "pieces", where))
      route.pieces.push_back(read_piece(route.value, piece, where + ".pieces"));
    return route;
  }

  Piece read_piece(ValueId value, const Json& json, const std::string& where) const {
    check_members(json, {"box", "contributions"}, where);
    Piece piece;
    const int rank = value == kStepVector ? 1 : model_.value(value).spec.shape.rank();
    piece.box = read_box(json_at(json, "box", where), rank, where);
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

Plan read_plan(const Model& model, const std::string& text, const std::string& origin,
               const ObjectiveOf& objective_of) {
  const Json json = parse_json(text, origin);
  LeftOut left_out;
  Plan plan = PlanReader(model, origin).read(json, left_out);
  try {
    complete_plan(model, left_out, objective_of, plan);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    fail(origin, format("this plan is not sound: {}", error.what()));
  }
  // Over all that a plan says, so of no use for a part of it.
  if (!left_out.any()) check_checksum(model, plan, json, origin);
  const std::vector<std::string> problems = validate(model, plan);
  if (problems.empty()) return plan;
  const std::string more =
      problems.size() == 1 ? "" : format(" (and {} more problems)", problems.size() - 1);
  fail(origin, format("this plan is not sound: {}{}; write it anew with kerf plan MODEL --out "
                      "FILE, or leave out what follows from its stages (layouts, routes, workers, "
                      "bottleneck, bound, checksum)",
                      problems.front(), more));
}

}  // namespace kerf::partitioner
