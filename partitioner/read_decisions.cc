// Reads what was decided of a plan: which model, which cut, the stages and their workers.
#include <algorithm>

#include "partitioner/plan_json.h"
#include "partitioner/plan_reader.h"
#include "partitioner/rewrite.h"
#include "partitioner/unsound.h"

namespace kerf::partitioner {

namespace {

void check_rewrites(const PlanFile& file) {
  if (file.json.contains("rewrites"))
    file.each("rewrites", [&](const Json& one, const std::string& where) {
      check_members(one, {"rewrite", "node", "numbers"}, where);
    });
  if (rewrites_in(file.json, file.origin) != file.model.rewrites())
    refuse_member(file.at("rewrites"),
                  "these are not the rewrites that made the model; apply those that the plan names "
                  "to what it was made for");
}

// The stages that name their first operator only do so in the model's order.
void check_first(const Model& model, const std::vector<Stage>& stages, const std::string& where) {
  const NodeId first = stages.back().nodes[0];
  const NodeId least = stages.size() == 1 ? 0 : stages[stages.size() - 2].nodes[0] + 1;
  if (stages.size() == 1 ? first == 0 : first >= least) return;
  throw Unsound(
      format("\"first\" is {}, but {}", model.node(first).name,
             stages.size() == 1 ? format("the first stage begins with {}", model.node(0).name)
                                : "a stage begins later in the model than the one before it"),
      where);
}

// Each stage from its first operator up to the next one's.
void fill_up(const Model& model, std::vector<Stage>& stages) {
  for (size_t s = 0; s < stages.size(); ++s) {
    const NodeId end = s + 1 < stages.size() ? stages[s + 1].nodes[0] : model.nodes();
    for (NodeId node = stages[s].nodes[0] + 1; node < end; ++node) stages[s].nodes.push_back(node);
  }
}

// A stage lists its operators or names the first; then it ends where the next begins.
std::vector<Stage> read_stages(const PlanFile& file) {
  std::vector<Stage> stages;
  bool first_only = false;
  file.each("stages", [&](const Json& one, const std::string& where) {
    if (stages.empty()) first_only = one.is_object() && one.contains("first");
    check_members(one, {"parts", first_only ? "first" : "nodes", "interleaved"}, where);
    Stage& stage = stages.emplace_back();
    stage.parts = json_numbers(json_array(one, "parts", where), where + ".parts");
    // One of it on each worker is all that can be of use; and parts go by pairs.
    if (stage.parts.size() > kMostWorkers)
      refuse_member(where + ".parts", format("a stage has at most {} parts", kMostWorkers));
    if (one.contains("interleaved")) stage.interleaved = json_bool(one, "interleaved", where);
    if (first_only) {
      stage.nodes = {file.node(json_at(one, "first", where), where + ".first")};
      check_first(file.model, stages, where);
    } else {
      for (const Json& name : json_array(one, "nodes", where))
        stage.nodes.push_back(file.node(name, where + ".nodes"));
    }
  });
  if (first_only) fill_up(file.model, stages);
  return stages;
}

// How many they are, or the rows of each.
void read_micro_batches(const PlanFile& file, Plan& plan) {
  const char* key = "micro_batches";
  if (!json_at(file.json, key, file.origin).is_array()) {
    plan.micro_batches = json_small(file.json, key, 1, file.origin);
    return;
  }
  for (const Json& one : json_array(file.json, key, file.origin)) {
    if (!one.is_number_integer()) refuse_member(file.at(key), "must be an array of integers");
    plan.given_sizes.push_back(one.get<int64_t>());
  }
  if (plan.given_sizes.empty()) refuse_member(file.at(key), "there is none");
  plan.micro_batches = static_cast<int>(plan.given_sizes.size());
  if (const std::string wrong = check_given_sizes(plan.micro_batches, plan.given_sizes, plan.batch);
      !wrong.empty())
    throw Unsound(wrong, file.at(key));
  if (plan.micro_batches == 1) plan.given_sizes.clear();  // it is the step, as one even one is
}

// All replicas have as many parts.
void read_replicas(const PlanFile& file, Plan& plan) {
  const char* key = "replica_of_micro_batch";
  if (!file.json.contains("replicas") && !file.json.contains(key)) return;
  const int replicas = json_small(file.json, "replicas", 1, file.origin);
  if (replicas > plan.parts() || plan.parts() % replicas != 0)
    throw Unsound(format("{} parts are no {} replicas of as many each", plan.parts(), replicas),
                  file.at("replicas"));
  plan.replica_of = json_numbers(json_array(file.json, key, file.origin), file.at(key));
  plan.division.replica_parts = plan.parts() / replicas;
}

}  // namespace

NodeId PlanFile::node(const Json& name, const std::string& where) const {
  if (!name.is_string()) refuse_member(where, "the name of a node must be a string");
  const NodeId node = model.find_node(name.get<std::string>());
  if (node < 0)
    throw Unsound(format("{} has no node \"{}\"", model.name(), name.get<std::string>()), where);
  return node;
}

void check_header(const PlanFile& file) {
  const auto& [model, json, origin] = file;
  if (!json.is_object() || !json.contains("kerf_plan"))
    refuse_member(origin,
                  "this is not a plan of kerf (\"kerf_plan\" is missing); write one with kerf plan "
                  "MODEL --out FILE");
  const int64_t version = json_int(json, "kerf_plan", origin);
  if (version != kPlanVersion)
    refuse_member(origin,
                  format("this plan has version {}, this kerf reads version {}; write it anew with "
                         "kerf plan MODEL --out FILE",
                         version, kPlanVersion));
  check_rewrites(file);
  const std::string name = json_string(json, "model", origin);
  const std::string fingerprint = json_string(json, "fingerprint", origin);
  if (name != model.name() || fingerprint != model.fingerprint())
    throw Unsound(
        format("this plan is for another model: {} with fingerprint {}, not {} with {}; write one "
               "with kerf plan {} --out FILE",
               name, fingerprint, model.name(), model.fingerprint(), model.name()),
        origin);
}

Plan read_decisions(const PlanFile& file) {
  const auto& [model, json, origin] = file;
  Plan plan;
  plan.model = json_string(json, "model", origin);
  plan.fingerprint = json_string(json, "fingerprint", origin);
  plan.cut = parsed(parse_cut, json_string(json, "cut", origin), file.at("cut"));
  plan.batch = json_int(json, "batch", origin);
  if (plan.batch < 1 || plan.batch > kMostRows)
    refuse_member(origin,
                  format("the batch of {} rows is not within 1 and {}", plan.batch, kMostRows));
  read_micro_batches(file, plan);
  plan.schedule = json_string(json, "schedule", origin);
  if (json.contains("request")) plan.request = read_request(file);
  plan.binding = json_numbers(json_array(json, "binding", origin), file.at("binding"));
  read_replicas(file, plan);
  plan.stages = read_stages(file);
  return plan;
}

}  // namespace kerf::partitioner
