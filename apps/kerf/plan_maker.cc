#include "apps/kerf/plan_maker.h"

#include <utility>

#include "apps/kerf/flag_rules.h"
#include "apps/kerf/plan_request.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/main/flag_values.h"
#include "apps/report/sign_of_life.h"
#include "apps/report/terminal.h"
#include "partitioner/choose_plan.h"
#include "partitioner/replicas.h"
#include "partitioner/shared_workers.h"
#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "schedmp/steps.h"

namespace kerf::apps {

namespace {

// Searches of all kinds ask it again and again.
class InFlightUntil final : public partitioner::InFlight {
 public:
  InFlightUntil(std::unique_ptr<partitioner::InFlight> of, std::function<void()> end_if_stopped)
      : of_(std::move(of)), end_if_stopped_(std::move(end_if_stopped)) {}
  std::vector<partitioner::Flight> of(const partitioner::Pipeline& pipeline,
                                      int micro_batches) const override {
    end_if_stopped_();
    return of_->of(pipeline, micro_batches);
  }
  std::vector<int> held(const partitioner::Model& model, const partitioner::Plan& plan,
                        const std::vector<partitioner::Part>& parts) const override {
    end_if_stopped_();
    return of_->held(model, plan, parts);
  }
  bool splits() const override { return of_->splits(); }
  bool trains() const override { return of_->trains(); }
  bool updates_within() const override { return of_->updates_within(); }

 private:
  const std::unique_ptr<partitioner::InFlight> of_;
  const std::function<void()> end_if_stopped_;
};

int replicas_of(const PlanFlags& flags, const std::string& schedule) {
  return is_built_in(schedule) ? schedmp::replicas_of(schedule)
                               : read_schedule_file(flags, schedule).schedule.replicas;
}

}  // namespace

bool has_shared_workers(const partitioner::PlanRequest& request) {
  if (request.cut != partitioner::Cut::kLayer) return false;
  return request.placement.empty() ? request.steering.stages_per_worker > 1
                                   : request.workers > request.workers_bound();
}

PlanMaker::PlanMaker(const PlanFlags& flags, const std::string& schedule, bool quietly,
                     std::stop_token stop)
    : flags_(flags),
      quietly_(quietly),
      stop_(std::move(stop)),
      has_replicas_(replicas_of(flags, schedule) > 1),
      in_flight_(std::make_unique<InFlightUntil>(in_flight_of(flags, schedule),
                                                 [this] { end_if_stopped(); })) {}

void PlanMaker::end_if_stopped() const {
  if (stop_.stop_requested()) throw SearchStopped();
}

bool PlanMaker::is_automatic() const { return flags_.cut == kAutoCut; }

Lacks PlanMaker::make(const partitioner::PlanRequest& request, Planned& planned) const {
  require(!has_replicas_ || !flags_.fit_batch, "--fit-batch",
          "it fits plans of one replica; give --batch, or a schedule without replicas");
  Lacks lacks = make_one_replica(request, planned);
  return lacks || !has_replicas_ ? lacks : replicate(request, planned);
}

Lacks PlanMaker::make_one_replica(const partitioner::PlanRequest& request, Planned& planned) const {
  if (is_automatic()) return choose(request, planned);
  return has_shared_workers(request) ? place_stages(request, planned) : cut(request, planned);
}

// The step of a plan under the schedule that the request names.
std::unique_ptr<partitioner::Objective> PlanMaker::step_of(
    const partitioner::PlanRequest& request, const std::function<void()>& on_step) const {
  return schedmp::simulated_step(
      [&, on_step](const partitioner::Model& model, const partitioner::Plan& plan) {
        end_if_stopped();
        if (on_step) on_step();
        return schedmp::as_it_runs(
            find_schedule(flags_, request.schedule, pipeline_of(model, plan), plan.micro_batches),
            plan.stage_of(model.loss()));
      });
}

Lacks PlanMaker::cut(const partitioner::PlanRequest& request, Planned& planned) const {
  auto answer = partitioner::plan_model(planned.model, request, in_flight());
  if (auto* const lacks = std::get_if<partitioner::Infeasible>(&answer)) return std::move(*lacks);
  auto& made = std::get<partitioner::PlannedModel>(answer);
  planned.model = std::move(made.model);
  planned.plan = std::move(made.plan);
  return {};
}

Lacks PlanMaker::place_stages(const partitioner::PlanRequest& request, Planned& planned) const {
  planned.model = partitioner::model_for(planned.model, request);
  std::optional<SignOfLife> life;
  if (!quietly_) life.emplace(life_on_stderr());
  int tried = 0;
  const auto objective = step_of(request, [&] {
    if (life) life->tell("placing stages on workers", plural(++tried, "plan"));
  });
  auto answer = partitioner::plan_shared_workers(planned.model, request, in_flight(), *objective);
  if (auto* const lacks = std::get_if<partitioner::Infeasible>(&answer)) return std::move(*lacks);
  planned.plan = std::get<partitioner::Plan>(std::move(answer));
  return {};
}

bool PlanMaker::make_within(const partitioner::PlanRequest& request, Planned& planned) const {
  if (!has_shared_workers(request))
    return partitioner::fits(planned.model, request, in_flight()) && !make(request, planned);
  planned.model = partitioner::model_for(planned.model, request);
  auto plan = partitioner::shared_workers_within(planned.model, request, in_flight(),
                                                 *step_of(request, {}));
  if (!plan) return false;
  planned.plan = *std::move(plan);
  return !has_replicas_ || !replicate(request, planned);
}

Lacks PlanMaker::choose(const partitioner::PlanRequest& request, Planned& planned) const {
  const auto objective = step_of(request, {});
  std::optional<SignOfLife> life;
  if (!quietly_) life.emplace(life_on_stderr());
  auto answer = partitioner::choose_plan(planned.model, request, in_flight(), *objective,
                                         [&](const std::string& what) {
                                           end_if_stopped();
                                           if (life) life->tell("choosing a plan", what);
                                         });
  if (auto* const lacks = std::get_if<partitioner::Infeasible>(&answer)) return std::move(*lacks);
  auto& choice = std::get<partitioner::Choice>(answer);
  planned.model = std::move(choice.model);
  planned.plan = std::move(choice.plan);
  planned.tried = std::move(choice.tried);
  return {};
}

Lacks PlanMaker::replicate(const partitioner::PlanRequest& request, Planned& planned) const {
  partitioner::Plan& plan = planned.plan;
  const schedmp::Schedule schedule =
      find_schedule(flags_, request.schedule, pipeline_of(planned.model, plan), plan.micro_batches);
  auto answer = partitioner::replicated_plan_within(
      planned.model, request, in_flight(), std::move(plan), schedule.groups, schedule.replica_of);
  if (auto* const lacks = std::get_if<partitioner::Infeasible>(&answer)) return std::move(*lacks);
  plan = std::get<partitioner::Plan>(std::move(answer));
  return {};
}

}  // namespace kerf::apps
