#include "apps/kerf/plan_check.h"

#include "apps/kerf/flag_rules.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned.h"
#include "apps/kerf/proof.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/models.h"
#include "apps/report/terminal.h"
#include "partitioner/given_stages.h"
#include "partitioner/model_graph.h"
#include "partitioner/unsound.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

// Whether the text is an object that says that it is a plan, or with the members that all have.
// What --json prints of a plan has them, too, and each node's stage beside.
bool says_plan(const Json& file) {
  return file.is_object() && !file.contains("assignment") &&
         (file.contains("kerf_plan") || (file.contains("stages") && file.contains("fingerprint")));
}

std::string unsound_stages(const PlanFlags& flags, const std::string& text,
                           const std::string& file) {
  const partitioner::NamedStages named = partitioner::read_stages(text, file);
  require(flags.model.has_value(), file,
          "it says the stage of each operator, and not, as a plan does, of which model; name that: "
          "kerf plan MODEL --check FILE");
  partitioner::PlanRequest request;
  return partitioner::stages_of_names(
             partitioner::cost_graph_of(make_model_with_notes(flags.source()).model, request),
             named)
      .unsound;
}

// What its schedule cannot run is no plan.
std::string unsound_plan(const PlanFlags& flags, const std::string& file) {
  if (flags.says_model()) make_model_with_notes(flags.source());  // its faults are none of the plan
  try {
    const Planned planned = read_plan_of(flags, file);
    const Proof proof = prove(planned, schedule_of(flags, planned).schedule);
    return format("{}", fmt::join(proof.problems, "; "));
  } catch (const partitioner::Unsound& unsound) {
    return unsound.what();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInfeasible) return error.what();
    throw;
  }
}

}  // namespace

int answer_check(std::string unsound, const std::string& file, bool json) {
  if (unsound.starts_with(file + ": ")) unsound.erase(0, file.size() + 2);
  answer(
      json,
      [&] {
        Json told = {{"file", file}, {"sound", unsound.empty()}};
        if (!unsound.empty()) told["why"] = readable(unsound);
        return told;
      },
      [&](bool) {
        return unsound.empty() ? file + " is sound\n"
                               : format("{} is unsound: {}\n", file, readable(unsound));
      });
  return unsound.empty() ? 0 : 1;
}

int check_plan_file(const PlanFlags& flags, const std::string& file, bool json) {
  const std::string text = runtime::read_file(file, kMostPlan);
  const bool plan = says_plan(parse_json(text, file));
  if (!plan) check_flags_of_stages(flags.command);
  return answer_check(plan ? unsound_plan(flags, file) : unsound_stages(flags, text, file), file,
                      json);
}

}  // namespace kerf::apps
