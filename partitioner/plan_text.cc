// Reads plans: the readers of their members (plan_reader.h), what follows from them, and the proof
// that the whole is sound for the model.
#include <algorithm>

#include "partitioner/check_predictions.h"
#include "partitioner/plan.h"
#include "partitioner/plan_json.h"
#include "partitioner/plan_reader.h"
#include "partitioner/unsound.h"

namespace kerf::partitioner {

namespace {

// As in files from before there was a step vector, and where one part has all of it.
bool lacks_step_routes(const Plan& plan) {
  return plan.parts() > 1 &&
         std::none_of(plan.routes.begin(), plan.routes.end(),
                      [](const Route& route) { return route.value == kStepVector; });
}

void read_what_follows(const PlanFile& file, LeftOut& left_out, Plan& plan) {
  left_out.routes = !file.json.contains("routes");
  left_out.workers = !file.json.contains("workers");
  left_out.bottleneck = !file.json.contains("bottleneck");
  if (!left_out.routes) {
    plan.routes = read_routes(file);
    left_out.step_routes = lacks_step_routes(plan);
  }
  if (!left_out.workers) plan.workers = read_workers(file);
  if (!left_out.bottleneck) plan.bottleneck = json_finite(file.json, "bottleneck", file.origin);
  if (file.json.contains("bound")) plan.bound = json_finite(file.json, "bound", file.origin);
}

// What the text leaves out is noted in `left_out`.
Plan read_members(const PlanFile& file, LeftOut& left_out) {
  check_header(file);
  check_members(file.json, {"kerf_plan", "model",         "fingerprint", "cut",
                            "batch",     "micro_batches", "schedule",    "request",
                            "rewrites",  "binding",       "replicas",    "replica_of_micro_batch",
                            "stages",    "layouts",       "divisions",   "routes",
                            "workers",   "bottleneck",    "bound",       "checksum"},
                file.origin);
  Plan plan = read_decisions(file);
  plan.division.largest = plan.largest_micro_batch();
  plan.layouts = read_layouts(file, plan.division.largest, left_out.layouts);
  plan.division.nodes = read_divisions(file, plan.division.largest);
  read_what_follows(file, left_out, plan);
  return plan;
}

// Whether the checksum says that every figure is as it was written. It is over all that the plan
// said: that it does not match proves nothing where some of it may have been left out.
bool is_as_written(const PlanFile& file, const LeftOut& left_out, const Plan& plan) {
  if (!file.json.contains("checksum")) return false;
  if (json_string(file.json, "checksum", file.origin) ==
      plan_checksum(plan_to_json(file.model, plan)))
    return true;
  if (left_out.any() || !plan.bound) return false;
  throw Unsound(
      "the checksum does not match: the plan was changed after it was written; write it "
      "anew with kerf plan MODEL --out FILE, or remove the line \"checksum\" if the "
      "change is meant",
      file.origin);
}

void check_sound(const PlanFile& file, const Plan& plan) {
  const std::vector<std::string> problems = validate(file.model, plan);
  if (problems.empty()) return;
  const std::string more =
      problems.size() == 1 ? "" : format(" (and {})", plural(problems.size() - 1, "more problem"));
  throw Unsound(format("this plan is not sound: {}{}; write it anew with kerf plan MODEL --out "
                       "FILE, or leave out what follows from its stages (layouts, routes, workers, "
                       "bottleneck, bound, checksum)",
                       problems.front(), more),
                file.origin);
}

}  // namespace

Plan read_plan(const Model& model, const std::string& text, const std::string& origin,
               const InFlightOf& in_flight_of) {
  const Json json = parse_json(text, origin);
  const PlanFile file{model, json, origin};
  LeftOut left_out;
  Plan plan = read_members(file, left_out);
  try {
    complete_plan(model, left_out, in_flight_of, plan);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    throw Unsound(format("this plan is not sound: {}", error.what()), origin);
  }
  if (lacks_step_routes(plan)) left_out.step_routes = false;  // it has none, and so had the text
  const bool as_written = is_as_written(file, left_out, plan);
  check_sound(file, plan);
  if (!as_written)
    if (auto wrong = wrong_prediction(model, left_out, in_flight_of, plan))
      throw Unsound(*std::move(wrong), origin);
  return plan;
}

}  // namespace kerf::partitioner
