// Every schedule by name: one line each, and its shape where it has one.
#include <algorithm>
#include <functional>
#include <set>

#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "schedmp/schedules/fitted_rows.h"
#include "schedmp/steps.h"

namespace kerf::schedmp {

namespace {

constexpr Shape kAnywhere = {};
constexpr Shape kOneEach = {Placement::kInTurn, 1, 1, 1};
constexpr Shape kInTurn = {Placement::kInTurn, 2};
constexpr Shape kThereAndBack = {Placement::kThereAndBack, 2, 2, 2};
constexpr Shape kBothWays = {Placement::kBothWays, 1, 1, 1};
constexpr Shape kWaves = {Placement::kThereAndBack, 2, 2, 64, 2};

constexpr int kMostStagesOfShapes = 1 << 20;

struct Entry {
  const char* name;
  Schedule (*make)(const Pipeline& pipeline, int micro_batches, const ActionCosts& costs);
  Shape shape = kAnywhere;
  bool splits = false;  // I and W are apart
  // Is made as for so many micro-batches a stage at least, whatever there are.
  int made_for = 0;
  bool endless = false;
  bool trains = true;
};

template <Schedule (*make)(const Pipeline&, int)>
Schedule whatever_it_costs(const Pipeline& pipeline, int micro_batches, const ActionCosts&) {
  return make(pipeline, micro_batches);
}

constexpr Entry kEntries[] = {
    {"1f1b", whatever_it_costs<one_f_one_b>},
    {"gpipe", whatever_it_costs<gpipe>},
    {"naive", whatever_it_costs<naive>},
    {"zb-h1", whatever_it_costs<zb_h1>, kOneEach, true, 1},
    {"zb-h2", whatever_it_costs<zb_h2>, kOneEach, true, 2},
    {"interleaved", whatever_it_costs<interleaved>, kInTurn},
    {"looped-bfs", whatever_it_costs<looped_bfs>, kInTurn},
    {"zbv", whatever_it_costs<zbv>, kThereAndBack, true, 2},
    {"v-half", whatever_it_costs<v_half>, kThereAndBack, true},
    {"v-min", whatever_it_costs<v_min>, kThereAndBack, true},
    {"dualpipe-v", whatever_it_costs<dualpipe_v>, kThereAndBack, true, 2},
    {"hanayo", hanayo, kWaves},
    {"chimera", whatever_it_costs<chimera>, kBothWays},
    {"dualpipe", whatever_it_costs<dualpipe>, kBothWays, true, 2},
    {"pipedream", whatever_it_costs<pipedream>, kOneEach, false, 0, true},
    {"pipedream-2bw", whatever_it_costs<pipedream_2bw>, kOneEach, false, 0, true},
    {"ampnet", whatever_it_costs<ampnet>, kOneEach, false, 0, true},
    {"forward-only", whatever_it_costs<forward_only>, kAnywhere, false, 0, false, false},
};

const Entry& find_entry(const std::string& name) {
  for (const Entry& entry : kEntries)
    if (name == entry.name) return entry;
  throw Error(ErrorCode::kUsage, kerf::format("there is no schedule '{}'; there are {}, and files",
                                              name, fmt::join(schedule_names(), ", ")));
}

}  // namespace

std::string to_string(Placement placement) {
  switch (placement) {
    case Placement::kAnywhere:
      return "anywhere";
    case Placement::kInTurn:
      return "in turn (of three workers 0 1 2 0 1 2)";
    case Placement::kThereAndBack:
      return "there and back (of three workers 0 1 2 2 1 0)";
    case Placement::kBothWays:
      return "both ways (of four workers 0 1 2 3, and once more 3 2 1 0)";
  }
  KERF_CHECK(false, "no placement {}", static_cast<int>(placement));
}

int place_of(Placement placement, int stage, int workers) {
  const int place = stage % workers;
  const bool back = placement == Placement::kThereAndBack && stage / workers % 2 == 1;
  return back ? workers - 1 - place : place;
}

std::string chunks_text(const Shape& shape) {
  if (shape.least_chunks == shape.most_chunks)
    return kerf::format("{} stage{}", shape.chunks, shape.chunks == 1 ? "" : "s");
  if (shape.multiple == 2) return "an even number of stages";
  return kerf::format("the same number of stages, {} at most,", shape.most_chunks);
}

bool splits_weights(const std::string& name) { return find_entry(name).splits; }

int replicas_of(const std::string& name) {
  return shape_of(name).placement == Placement::kBothWays ? 2 : 1;
}

bool trains(const std::string& name) { return find_entry(name).trains; }

bool is_endless(const std::string& name) { return find_entry(name).endless; }

bool allows(const Shape& shape, int chunks) {
  return chunks >= shape.least_chunks && chunks <= shape.most_chunks &&
         chunks % shape.multiple == 0;
}

int count_workers(const std::vector<std::vector<int>>& groups) {
  std::set<int> workers;
  for (const std::vector<int>& group : groups) {
    if (group.empty()) throw Error(ErrorCode::kUsage, "a stage has no worker");
    workers.insert(group.begin(), group.end());
  }
  const auto count = static_cast<int>(workers.size());
  if (!workers.empty() && (*workers.begin() != 0 || *workers.rbegin() != count - 1))
    throw Error(ErrorCode::kUsage,
                kerf::format("the stages are on the workers {}; use every number from 0 to {}",
                             fmt::join(workers, ","), count - 1));
  return count;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

const Shape& shape_of(const std::string& name) { return find_entry(name).shape; }

std::vector<std::vector<int>> groups_of_shape(const std::string& name, int workers, int chunks) {
  const Shape& shape = shape_of(name);
  if (chunks == 0) chunks = shape.chunks;
  if (!allows(shape, chunks))
    throw Error(ErrorCode::kUsage, kerf::format("schedule {} has {} on each worker, not {}", name,
                                                chunks_text(shape), chunks));
  if (int64_t{workers} * chunks > kMostStagesOfShapes)
    throw Error(ErrorCode::kUsage,
                kerf::format("{} workers of {} stages each are more than {} stages", workers,
                             chunks, kMostStagesOfShapes));
  std::vector<std::vector<int>> groups;
  for (int stage = 0; stage < workers * chunks; ++stage)
    groups.push_back({place_of(shape.placement, stage, workers)});
  if (shape.placement == Placement::kBothWays)
    for (int stage = 0; stage < workers; ++stage) groups.push_back({workers - 1 - stage});
  return groups;
}

Pipeline chain_of_shape(const std::string& name, int workers, int chunks) {
  return chain_of(groups_of_shape(name, workers, chunks), replicas_of(name));
}

namespace {

std::string plural(int replicas) {
  return kerf::format("{} replica{}", replicas, replicas == 1 ? "" : "s");
}

}  // namespace

Pipeline with_replicas_of(const std::string& name, Pipeline pipeline) {
  const auto stages = static_cast<size_t>(pipeline.graph.stages());
  if (replicas_of(name) == 1 || pipeline.groups.size() != stages) return pipeline;
  for (size_t stage = 0; stage < stages; ++stage)
    pipeline.groups.push_back(pipeline.groups[stages - 1 - stage]);
  return pipeline;
}

namespace {

// What stages that go there and back are made for.
bool are_of_one_length(const ActionCosts& costs) {
  const StageCosts& all = costs.others;
  return costs.stages.empty() && costs.speeds.empty() && costs.links.empty() &&
         costs.transfer == 0 && all.forward == all.input_gradient &&
         all.forward == all.weight_gradient;
}

}  // namespace

Schedule make_schedule(const std::string& name, const Pipeline& given, int micro_batches,
                       const ActionCosts& costs, int64_t most_actions) {
  const Entry& entry = find_entry(name);
  const Pipeline pipeline = with_replicas_of(name, given);
  const auto replicas = std::ssize(pipeline.groups) / std::max(pipeline.graph.stages(), 1);
  if (entry.trains && replicas != replicas_of(name))
    throw Error(ErrorCode::kUsage,
                kerf::format("schedule {} has {} of each stage, and there are {}", name,
                             plural(replicas_of(name)), replicas));
  if (micro_batches < 1)
    throw Error(ErrorCode::kUsage,
                kerf::format("a step needs at least 1 micro-batch, not {}", micro_batches));
  int64_t members = 0;
  for (const std::vector<int>& group : pipeline.groups)
    members += static_cast<int64_t>(group.size());
  const auto stages = static_cast<int64_t>(pipeline.groups.size());
  const int64_t made_for = std::max<int64_t>(micro_batches, entry.made_for * stages);
  // What is ahead at the start is at most a forward of each stage for each of those behind it.
  const int64_t ahead = entry.endless ? stages : 0;
  if (members * ((entry.splits ? 3 : 2) * made_for + ahead + 1) > most_actions)
    throw Error(ErrorCode::kUsage,
                kerf::format("{} micro-batches of {} stages and their groups are more than {} "
                             "actions; use fewer --micro-batches",
                             micro_batches, members, most_actions));
  Schedule made = entry.make(pipeline, micro_batches, costs);
  const bool fits = entry.splits && entry.shape.placement == Placement::kThereAndBack;
  return fits && !are_of_one_length(costs) ? fitted_rows(made, pipeline, costs) : made;
}

namespace {

int64_t updates_in(const std::vector<Action>& row) {
  return std::count_if(row.begin(), row.end(),
                       [](const Action& action) { return action.kind == ActionKind::kUpdate; });
}

}  // namespace

Schedule make_step(const std::string& name, const Pipeline& pipeline, int micro_batches) {
  if (!is_endless(name)) return make_schedule(name, pipeline, micro_batches);
  const std::vector<int> hops = hops_to_the_end(pipeline);
  int period = hops.empty() ? 1 : std::max(1, *std::max_element(hops.begin(), hops.end()));
  const int least = period;
  while (period < micro_batches && micro_batches % period != 0) ++period;
  const Schedule endless =
      make_schedule(name, pipeline, std::min(period, std::max(micro_batches, 1)));
  Schedule step = step_of(endless, micro_batches);
  if (micro_batches > 1 && !step.rows.empty() && updates_in(step.rows[0]) == 1)
    throw Error(ErrorCode::kUsage,
                kerf::format("its first stage is {} ahead and {} micro-batches make one period, so "
                             "that a step had one update at its end, as 1f1b's; use {} or a "
                             "multiple of it as --micro-batches",
                             least, micro_batches, 2 * least),
                kerf::format("schedule {}", name));
  return step;
}

Schedule make_schedule(const std::string& name, const partitioner::Model& model,
                       const partitioner::Plan& plan) {
  return as_it_runs(make_step(name, pipeline_of(model, plan), plan.micro_batches),
                    plan.stage_of(model.loss()));
}

}  // namespace kerf::schedmp
