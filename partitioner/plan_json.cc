#include "partitioner/plan_json.h"

#include <utility>

#include "partitioner/complete_plan.h"
#include "runtime/fingerprint.h"

namespace kerf::partitioner {

namespace {

constexpr size_t kLineWidth = 120;

Json box_to_json(const ops::Box& box) {
  if (box.is_whole()) return "all";
  Json axes = Json::array();
  for (const ops::IndexSet& set : box.axes) axes.push_back(ops::to_string(set));
  return axes;
}

Json layout_to_json(const ops::Layout& layout) {
  Json shares = Json::array();
  for (const ops::Share& share : layout.shares) {
    Json one = {{"part", share.part}, {"box", box_to_json(share.box)}};
    if (share.partial()) {
      Json& slices = one["slices"] = Json::array();
      for (const ops::IndexSet& set : share.slices) slices.push_back(ops::to_string(set));
    }
    shares.push_back(std::move(one));
  }
  return shares;
}

Json piece_to_json(const Model& model, const Piece& piece) {
  Json result = {{"box", box_to_json(piece.box)}};
  if (piece.contributions.empty()) return result;
  Json& from = result["contributions"] = Json::array();
  for (const Contribution& c : piece.contributions)
    from.push_back({{"node", model.node(c.use.node).name},
                    {"input", c.use.input},
                    {"box_number", c.box_number}});
  return result;
}

Json route_to_json(const Model& model, const Route& route) {
  Json pieces = Json::array();
  for (const Piece& piece : route.pieces) pieces.push_back(piece_to_json(model, piece));
  Json result = {{"value", value_name(model, route)},
                 {"direction", route.gradient ? "backward" : "forward"},
                 {"from", route.from},
                 {"to", route.to},
                 {"pieces", std::move(pieces)}};
  if (route.leg != Leg::kDirect) result["leg"] = to_string(route.leg);
  return result;
}

Json worker_to_json(const WorkerPrediction& w) {
  Json json = {{"worker", w.worker},
               {"forward_flops", w.forward_flops},
               {"seconds", w.seconds},
               {"weight_bytes", w.weight_bytes},
               {"activation_bytes", w.activation_bytes},
               {"peak_bytes", w.peak_bytes},
               {"messages", w.messages},
               {"bytes_in", w.bytes_in},
               {"bytes_out", w.bytes_out}};
  if (w.tensor_bytes) json["tensor_bytes"] = *w.tensor_bytes;
  return json;
}

Json stage_to_json(const Model& model, const Stage& stage, bool first_only) {
  Json json{{"parts", stage.parts}};
  if (first_only && !stage.nodes.empty()) {
    json["first"] = model.node(stage.nodes.front()).name;
  } else {
    Json& nodes = json["nodes"] = Json::array();
    for (const NodeId node : stage.nodes) nodes.push_back(model.node(node).name);
  }
  if (stage.interleaved) json["interleaved"] = true;
  return json;
}

// The names of the stages' first operators say all, where the stages follow one another in the
// model's order.
bool consecutive(const Plan& plan) {
  NodeId next = 0;
  for (const Stage& stage : plan.stages)
    for (const NodeId node : stage.nodes)
      if (node != next++) return false;
  return true;
}

Json stages_to_json(const Model& model, const Plan& plan, bool first_only) {
  Json stages = Json::array();
  for (const Stage& stage : plan.stages) stages.push_back(stage_to_json(model, stage, first_only));
  return stages;
}

Json request_to_json(const KeptRequest& request) {
  Json json = Json::object();
  if (!request.source.empty()) json["source"] = request.source;
  if (request.memory) json["memory"] = *request.memory;
  json["objective"] = to_string(request.minimise);
  json["slots"] = request.setting.slots;
  json["mirrored"] = request.setting.slot_place == SlotPlace::kBothEnds;
  if (request.setting.slot_place == SlotPlace::kExported) json["exported"] = true;
  json["optimizer_states"] = request.setting.optimizer_states;
  json["threads"] = request.setting.threads;
  if (request.momentum) json["momentum"] = *request.momentum;
  if (!request.optimizer.empty()) json["optimizer"] = request.optimizer;
  if (!request.profile.empty()) json["profile"] = profile_json(request.profile);
  if (!request.capacities.empty()) json["devices"] = capacities_json(request.capacities);
  if (!request.pairs) json["pairs"] = false;
  if (!request.trains) json["trains"] = false;
  if (!request.steering.empty()) json["steering"] = steering_json(request.steering);
  return json;
}

// A number, or of given sizes each.
Json micro_batches_to_json(const Plan& plan) {
  return plan.given_sizes.empty() ? Json(plan.micro_batches) : Json(plan.given_sizes);
}

// What was decided, but for stages and layouts.
Json head_to_json(const Model& model, const Plan& plan) {
  Json json = {{"kerf_plan", kPlanVersion},
               {"model", plan.model},
               {"fingerprint", plan.fingerprint},
               {"cut", to_string(plan.cut)},
               {"batch", plan.batch},
               {"micro_batches", micro_batches_to_json(plan)},
               {"schedule", plan.schedule}};
  if (plan.request) json["request"] = request_to_json(*plan.request);
  for (const Rewrite& rewrite : model.rewrites()) {
    Json one = {{"rewrite", rewrite.name}, {"node", rewrite.node}};
    if (!rewrite.numbers.empty()) one["numbers"] = rewrite.numbers;
    json["rewrites"].push_back(std::move(one));
  }
  json["binding"] = plan.binding;
  if (plan.division.replica_parts > 0) {
    json["replicas"] = plan.replicas();
    json["replica_of_micro_batch"] = plan.replica_of;
  }
  return json;
}

std::string one_line(const Json& json) {
  if (!json.is_structured()) return json_text(json);
  std::string text;
  for (const auto& [key, value] : json.items()) {
    if (!text.empty()) text += ", ";
    if (json.is_object()) text += json_text(key) + ": ";
    text += one_line(value);
  }
  return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

// Such as stages and workers: to be read below one another.
bool is_list_of_objects(const Json& json) {
  return json.is_array() && !json.empty() && json.front().is_object();
}

void write_json(const Json& json, size_t indent, size_t used, std::string& text) {
  std::string line = one_line(json);
  const bool divided = indent == 0 || (indent == 2 && is_list_of_objects(json));
  if (!divided && used + line.size() <= kLineWidth) {
    text += line;
    return;
  }
  if (!json.is_structured() || json.empty()) {
    text += line;
    return;
  }
  const std::string margin(indent + 2, ' ');
  text += json.is_object() ? "{" : "[";
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    const std::string name = json.is_object() ? json_text(key) + ": " : std::string();
    text.append(first ? "\n" : ",\n").append(margin).append(name);
    write_json(value, indent + 2, margin.size() + name.size() + 1, text);
    first = false;
  }
  text += "\n" + std::string(indent, ' ') + (json.is_object() ? "}" : "]");
}

// The nodes whose division does not follow from the layout of their first output.
void add_divisions(const Model& model, const Plan& plan, Json& json) {
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const ops::Layout& division = plan.division.nodes[static_cast<size_t>(id)];
    const ops::Layout& output = plan.layouts[static_cast<size_t>(model.node(id).outputs[0])];
    if (division_of(model, id, output, plan.division.largest) == division) continue;
    json["divisions"][model.node(id).name] = layout_to_json(division);
  }
}

}  // namespace

Json plan_to_json(const Model& model, const Plan& plan) {
  Json json = head_to_json(model, plan);
  json["stages"] = stages_to_json(model, plan, false);
  Json::object_t layouts;  // names are distinct; a search for each would take long
  for (ValueId id = 0; id < model.values(); ++id)
    layouts.emplace_back(model.value(id).name,
                         layout_to_json(plan.layouts[static_cast<size_t>(id)]));
  json["layouts"] = std::move(layouts);
  add_divisions(model, plan, json);
  Json& routes = json["routes"] = Json::array();
  for (const Route& route : plan.routes) routes.push_back(route_to_json(model, route));
  Json& workers = json["workers"] = Json::array();
  for (const WorkerPrediction& worker : plan.workers) workers.push_back(worker_to_json(worker));
  json["bottleneck"] = plan.bottleneck;
  if (plan.bound) json["bound"] = *plan.bound;
  return json;
}

Json decisions_to_json(const Model& model, const Plan& plan) {
  Json json = head_to_json(model, plan);
  json["stages"] = stages_to_json(model, plan, consecutive(plan));
  Json layouts = Json::object();
  const ImpliedDivisions implied(model, plan);
  for (const Stage& stage : plan.stages)
    for (const NodeId node : stage.nodes) {
      const ops::Layout& division = plan.division.nodes[static_cast<size_t>(node)];
      if (implied.of(stage, node, plan.division) == division) continue;
      const ValueId output = model.node(node).outputs[0];
      const ops::Layout& layout = plan.layouts[static_cast<size_t>(output)];
      if (division_of(model, node, layout, plan.division.largest) == division)
        layouts[model.value(output).name] = layout_to_json(layout);
      else
        json["divisions"][model.node(node).name] = layout_to_json(division);
    }
  if (!layouts.empty()) json["layouts"] = std::move(layouts);
  return json;
}

std::string plan_checksum(const Json& plan) {
  runtime::Fingerprint hash;
  hash.add(json_text(plan));
  return hash.hex();
}

std::string readable_json(const Json& json) {
  std::string text;
  write_json(json, 0, 0, text);
  return text + "\n";
}

std::string write_plan(const Model& model, const Plan& plan, PlanText form) {
  if (form == PlanText::kDecisions) return readable_json(decisions_to_json(model, plan));
  Json json = plan_to_json(model, plan);
  json["checksum"] = plan_checksum(json);
  return readable_json(json);
}

}  // namespace kerf::partitioner
