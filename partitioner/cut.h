// Cuts: the strategies that fill in layouts and stages. A cut is one file in cuts/.
#pragma once

#include <bitset>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "partitioner/in_flight.h"
#include "partitioner/plan.h"
#include "partitioner/search_effort.h"
#include "partitioner/setting.h"

namespace kerf::partitioner {

using GroupSet = std::bitset<kMostWorkers>;  // of a hybrid cut's groups

struct PlanRequest {
  Cut cut = Cut::kLayer;
  int workers = 1;             // parts, where a placement binds them
  std::vector<int> placement;  // part -> worker; empty: each to the worker of its number
  int stages = 0;              // hybrid: 0 means 2 (1 for one worker); others ignore it
  int64_t batch = 128;
  int micro_batches = 8;
  std::vector<int64_t> given_sizes = {};  // rows of each of them; empty: as even as can be
  std::string schedule = "1f1b";
  bool trains = true;             // whether the schedule has gradients: else they cost nothing
  bool updates_within = false;    // whether it updates within the step: no part shares a weight
  std::optional<int64_t> memory;  // bytes per worker
  Minimise minimise = Minimise::kTime;
  Setting setting;
  bool pairs = true;  // feature and hybrid: what follows a product may be divided by its inputs
  // hybrid: groups that go by feature even where by sample is cheaper
  GroupSet by_feature = {};
  std::string shares;  // free cut: text of the shares file
  std::string shares_origin;
  DeviceSpeed speed;
  Steering steering;               // what else a person asks of it
  std::string source;              // of the model: the plan keeps it
  std::optional<double> momentum;  // and this
  std::string optimizer;           // and this
  // layer: bytes are saved up to (1 + slack) times the least bottleneck; the automatic cut: up to
  // so many times the least seconds of a step
  double slack = 0;
  SearchEffort effort = {};
  std::vector<int> given_stages = {};  // layer: the stage of each node, instead of a search

  MicroBatchSizes sizes() const { return MicroBatchSizes(micro_batches, given_sizes); }
  int64_t largest_micro_batch() const { return sizes().largest(batch); }  // rows of it
  // Bytes that a worker may take: `memory`, or those of its device where they are fewer.
  std::optional<int64_t> cap_of(int worker) const;
  bool is_capped() const;
  PlanRequest without_caps() const;
  // Speeds of the parts' devices beside one another; empty where all are alike.
  std::vector<double> speeds_of_parts() const;
  // The worker that a part is bound to.
  int worker_of(int part) const {
    return placement.empty() ? part : placement[static_cast<size_t>(part)];
  }
  // How many workers there are; `workers` counts parts.
  int workers_bound() const;
};

// What a cut fills in. Parts are 0..parts-1.
struct Assignment {
  std::vector<Stage> stages;
  Division division;
  double bound = 0;               // no such cut has a lower bottleneck
  std::vector<int> binding = {};  // part -> worker; empty: as the request has it
  std::string witness = {};       // of the bound (bound.h)
  bool is_least = false;          // above the caps, as whatever else the cut finds, or more so
  bool is_proved_least = false;   // and nothing else that it may find takes less
};

// No plan meets the memory cap: the stage that needs most over it, and what would fit.
struct Infeasible {
  int stage = 0;
  int64_t cap = 0;
  int64_t over = 0;             // bytes
  std::string smallest_change;  // "--memory 52428800", "--workers 4", "--micro-batches 16"
  int micro_batches = 0;        // those of it; 0: it is another change
  int of_device = -1;           // the worker whose device has no more; -1: the cap is everybody's
  bool is_enough = true;        // so much more for everybody, whatever caps devices have
  std::string text() const;
  // What the smallest change is; 0: more memory for everybody.
  void tell_micro_batches(const PlanRequest& request, int micro_batches);
};

// The model with its nodes rewritten (rewrite.h) as the request's cut needs them: what to make a
// plan of. Mostly the model itself. Throws Error{kUsage} for a bad shares file.
Model model_for(const Model& model, const PlanRequest& request);

// Of what model_for() gives. Throws Error{kInfeasible} for more workers than operators,
// Error{kUsage} for a layout refused by name or a bad shares file.
std::variant<Plan, Infeasible> make_plan(const Model& model, const PlanRequest& request,
                                         const InFlight& in_flight);

// A plan, and the model as it is rewritten for that.
struct PlannedModel {
  Model model;
  Plan plan;
};
// From the model before any rewrite. Under a cap, of a hybrid cut whose groups would go by sample,
// also with some and all of them by feature, for which others may be rewritten: the best plan of
// these.
std::variant<PlannedModel, Infeasible> plan_model(const Model& model, const PlanRequest& request,
                                                  const InFlight& in_flight);

// A plan, where who asks has no use for what would fit; empty where nothing does.
std::optional<Plan> plan_within(const Model& model, const PlanRequest& request,
                                const InFlight& in_flight);
// The assignment that a plan is of.
Assignment assignment_of(const Plan& plan);
// What an assignment comes to: connected, bound and predicted; within request.memory or not.
Plan assigned_plan(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                   const Assignment& assignment);

// Layer cuts of which none is better in bottleneck, forward bytes between layers and peak memory;
// by bottleneck, within request.memory. Its slack counts for nothing.
std::vector<Plan> layer_front(const Model& model, const PlanRequest& request,
                              const InFlight& in_flight);

// Whether a plan is made that is within request.memory, where there is a cap. The model may be
// rewritten already; it is rewritten anew, as the request needs it.
bool fits(const Model& model, const PlanRequest& request, const InFlight& in_flight);
// The most rows of a step that are found to fit, in as many micro-batches of one size, whatever
// sizes were given; if none do, the fewest that there is a plan of, whose make_plan() says what
// would fit. Of the model before model_for(). Memory mostly grows with rows; a few more are tried
// than seemed to be too many.
int64_t largest_batch(const Model& model, PlanRequest request, const InFlight& in_flight);

// What a cut is asked.
struct CutTask {
  const Model& model;
  const PlanRequest& request;
  const InFlight& in_flight;
  // Stage -> bytes that the fullest of its workers would take under the request's caps, or, up to
  // `most`, of stages as they are: exactly where none is above that, else at the least.
  std::function<std::vector<int64_t>(const Assignment&, std::optional<double> most)> peaks;
  bool any_will_do = false;  // that is within the caps
};

// One cut: a file in cuts/ and a row of the table in cuts/table.cc. Its value of Cut is its row.
struct CutRow {
  std::string_view name;
  std::string_view help;  // one line
  // Where it heeds request.memory and finds nothing within it, one that is above, the least that
  // there is or not, or empty.
  std::optional<Assignment> (*make)(const CutTask& task);
  bool heeds_memory = false;
  // What of the model it needs rewritten; null: nothing.
  std::vector<Rewrite> (*rewrites)(const Model& model, const PlanRequest& request) = nullptr;
};
std::span<const CutRow> cuts();

// Contiguous segments of topological orders (least bottleneck, then fewest bytes) under the cap;
// every operator over all workers, by feature or by sample; stages times groups; any index sets.
std::optional<Assignment> cut_layer(const CutTask& task);
Assignment cut_feature(const Model& model, const PlanRequest& request);
std::vector<Rewrite> rewrites_for_feature(const Model& model, const PlanRequest& request);
Assignment cut_batch(const Model& model, const PlanRequest& request);
std::vector<Rewrite> rewrites_for_batch(const Model& model, const PlanRequest& request);
std::optional<Assignment> cut_hybrid(const CutTask& task);
std::vector<Rewrite> rewrites_for_hybrid(const Model& model, const PlanRequest& request);
Assignment cut_free(const Model& model, const PlanRequest& request);
std::vector<Rewrite> rewrites_for_free(const Model& model, const PlanRequest& request);

// The division of a node over the parts of its stage; `division` of what comes before in model
// order is set.
using DivideNode = std::function<ops::Layout(NodeId node, const std::vector<int>& group,
                                             const Division& division)>;
// As the feature and hybrid cuts choose it (cuts/spread.h has the rules). Looks at the whole model
// first, which it borrows: to be made once.
DivideNode spread(const Model& model, const PlanRequest& request);

// The division of a node with these iterations over the group, as the batch cut chooses it: samples
// in proportion to the parts' speeds, or evenly where none are given, and what counts none
// replicated. An operator that mixes samples gets one that it refuses.
ops::Layout divide_by_samples(const ops::IterationSpace& space, const std::vector<int>& group,
                              int64_t largest, const std::vector<double>& speeds = {});

// Predictions of a plan whose layouts, stages, binding and routes are set.
std::vector<WorkerPrediction> predict(const Model& model, const Plan& plan,
                                      const PlanRequest& request, const InFlight& in_flight);
// The peaks alone, by worker; or what these are at the least, in a fraction of the time: some
// thousandths below, as blocks of memory can mostly be packed without gaps.
enum class PeakFigure : uint8_t { kExact, kLeast };
// `sums`: what the plan was connected by (sums.h).
class Sums;
std::vector<int64_t> predict_peaks(const Sums& sums, const Plan& plan, const PlanRequest& request,
                                   const InFlight& in_flight, PeakFigure figure);

}  // namespace kerf::partitioner
