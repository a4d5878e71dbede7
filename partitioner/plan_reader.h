// The readers of a plan's JSON (plan_json.h), one for each subject. Every member is checked for
// presence (where it was decided; what follows from the rest may be absent), type and range, and no
// other member is accepted: a plan may come from anywhere. All throw Error{kUsage} that names file
// and path. Used by read_plan() alone. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "partitioner/complete_plan.h"
#include "partitioner/plan.h"
#include "partitioner/plan_members.h"

namespace kerf::partitioner {

// A plan's JSON, the model that it is read for, and the name that errors give it.
struct PlanFile {
  const Model& model;
  const Json& json;
  const std::string& origin;

  std::string at(const std::string& path) const { return format("{}: {}", origin, path); }
  // take(one, its place) for each of the top-level array `key`.
  template <class Take>
  void each(const std::string& key, const Take& take) const {
    size_t number = 0;
    for (const Json& one : json_array(json, key, origin))
      take(one, at(format("{}[{}]", key, number++)));
  }
  NodeId node(const Json& name, const std::string& where) const;
};

// ---- read_decisions.cc

// What must be right before anything else can be understood: version, model, rewrites.
void check_header(const PlanFile& file);
// What was decided, but for layouts and divisions.
Plan read_decisions(const PlanFile& file);

// ---- read_request.cc

KeptRequest read_request(const PlanFile& file);

// ---- read_layouts.cc; `largest`: rows of the largest micro-batch

// By value; `left_out`: those that the file has no layout of.
std::vector<ops::Layout> read_layouts(const PlanFile& file, int64_t largest,
                                      std::vector<bool>& left_out);
// What each node computes, where that is said.
std::vector<ops::Layout> read_divisions(const PlanFile& file, int64_t largest);
// "all", or one index set per axis.
ops::Box read_box(const Json& json, int rank, const std::string& where);

// ---- read_routes.cc

std::vector<Route> read_routes(const PlanFile& file);

// ---- read_predictions.cc

std::vector<WorkerPrediction> read_workers(const PlanFile& file);

}  // namespace kerf::partitioner
