// Plans as commands get them: made as the flags ask, or read from a file that flags may overrule in
// what is not a plan's to say.
#pragma once

#include <exception>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/kerf/plan_flags.h"
#include "partitioner/choose_plan.h"
#include "partitioner/cut.h"
#include "partitioner/onnx/import.h"

namespace kerf::apps {

inline constexpr double kDefaultMomentum = 0.9;        // of sgd
inline constexpr const char* kPlanFile = "plan.json";  // of a run's folder

// A plan, and how it is to be run: as the flags say, else as its request does.
struct Planned {
  std::string source;  // of the model
  partitioner::Model model;
  partitioner::Plan plan;  // its schedule: a name, or a file as this process finds it
  partitioner::Setting setting;
  std::optional<int64_t> memory;  // cap per worker
  std::string optimizer = "sgd";
  double momentum = kDefaultMomentum;  // 0 unless sgd
  // Of the optimizer, more or fewer than the plan was made for, because flags say so.
  int more_states = 0;
  std::map<std::string, ops::TensorLiteral> constants = {};  // outputs that are no results
  partitioner::onnx::FoldedWeights folded = {};
  std::string file = {};                       // that the plan was read from; empty: it was made
  std::vector<partitioner::Tried> tried = {};  // by the automatic cut
  double plan_seconds = 0;                     // of planning alone
};

// Makes the plan that the flags ask for; what a person should know of how the model was read goes
// to the standard error output, unless `quietly`. Throws Error{kUsage} or Error{kInfeasible}.
Planned make_plan_of(const PlanFlags& flags, bool quietly = false);
// The same, quietly, while something else goes on. Throws SearchStopped soon after it was asked to.
struct SearchStopped : std::exception {
  const char* what() const noexcept override { return "the search for a plan was stopped"; }
};
Planned make_plan_until(const std::stop_token& stop, const PlanFlags& flags);
// Reads a plan, or that of a run's folder; throws Error{kUsage} where a flag contradicts it. What a
// flag says of schedule, slots, transport, threads and optimizer goes before what the plan's
// request says, and what the plan predicts follows.
Planned read_plan_of(const PlanFlags& flags, const std::string& file_or_folder);
// One of the two: `file` empty, or not.
Planned planned_by(const PlanFlags& flags, const std::string& file);
// Its text for `file`: a schedule from a file is named relative to the plan. Throws Error{kUsage}
// where it would be more than can be read back.
std::string plan_text_for(const Planned& planned, const std::string& file,
                          partitioner::PlanText form);

// Of a run's folder, where there is nobody to ask: whole, or what was decided where that would be
// more than can be read back.
std::string plan_text_to_keep(const Planned& planned);

}  // namespace kerf::apps
