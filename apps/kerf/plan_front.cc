#include "apps/kerf/plan_front.h"

#include <algorithm>

#include "apps/kerf/plan_schedule.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/report/plan_certificate.h"
#include "apps/report/table.h"
#include "partitioner/complete_plan.h"
#include "partitioner/model_graph.h"

namespace kerf::apps {

namespace {

struct FrontPoint {
  double bottleneck = 0;
  double bytes = 0;   // forward, as cut_bytes
  double memory = 0;  // of the fullest worker
  std::vector<int> stage_of;
};

struct Front {
  std::string name;
  std::string unit;
  std::vector<std::string> nodes;
  std::vector<FrontPoint> points;
  partitioner::Bound bound;
};

void tell_front(const Front& front, bool json) {
  answer(
      json,
      [&] {
        Json points = Json::array();
        for (const FrontPoint& point : front.points)
          points.push_back({{"bottleneck", point.bottleneck},
                            {"cut_bytes", static_cast<int64_t>(point.bytes)},
                            {"memory", static_cast<int64_t>(point.memory)},
                            {"assignment", assignment_json(front.nodes, point.stage_of)}});
        return Json{{"graph", front.name},
                    {"unit", front.unit},
                    {"lower_bound", front.bound.value},
                    {"witness", front.bound.witness},
                    {"front", points}};
      },
      [&](bool colour) {
        Table table({"bottleneck " + front.unit, "above the bound", "cross forward", "memory"});
        for (const FrontPoint& point : front.points)
          table.add({format("{:.6g}", point.bottleneck),
                     human_percent(partitioner::gap_of(point.bottleneck, front.bound.value)),
                     human_bytes(point.bytes), human_bytes(point.memory)});
        return format("{}: plans of which none is better in bottleneck, bytes and memory\n\n",
                      front.name) +
               table.text(colour);
      });
}

}  // namespace

void answer_front(const partitioner::CostGraph& graph, const partitioner::GraphRequest& request,
                  bool json) {
  Front front{graph.name(), graph.unit(), {}, {}, {}};
  for (int node = 0; node < graph.size(); ++node) front.nodes.push_back(graph.node(node).name);
  for (const partitioner::GraphPlan& plan : partitioner::front_of(graph, request)) {
    front.points.push_back({plan.bottleneck, plan.cut_bytes, plan.memory(), plan.stage_of});
    front.bound = plan.bound;
  }
  tell_front(front, json);
}

void answer_front(const PlanFlags& flags, const Planned& planned, bool json) {
  partitioner::PlanRequest request = partitioner::request_of_plan(planned.plan);
  request.workers = static_cast<int>(planned.plan.stages.size());
  require(planned.plan.replicas() == 1, "--front",
          "it lists plans of one replica; choose a schedule without replicas");
  request.memory = planned.memory;
  request.setting = planned.setting;  // with the devices, which a plan forgets
  require(request.workers == planned.plan.workers_bound(), "--front",
          "it is for one stage on each worker; the schedule's file has several");
  if (flags.certify) request.effort = partitioner::kCertifyingEffort;
  const partitioner::CostGraph graph = partitioner::cost_graph_of(planned.model, request);
  Front front{graph.name(), graph.unit(), {}, {}, {}};
  for (int node = 0; node < graph.size(); ++node) front.nodes.push_back(graph.node(node).name);
  for (const partitioner::Plan& plan : partitioner::layer_front(
           planned.model, request, *in_flight_of(flags, planned.plan.schedule))) {
    const std::vector<int> stage_of = partitioner::stages_of_nodes(plan, graph.size());
    double memory = 0;
    for (const partitioner::WorkerPrediction& worker : plan.workers)
      memory = std::max(memory, static_cast<double>(worker.peak_bytes));
    front.points.push_back(
        {plan.bottleneck, partitioner::cut_bytes(graph, stage_of), memory, stage_of});
    front.bound = {plan.bound.value_or(0), plan.witness.text};
  }
  tell_front(front, json);
}

}  // namespace kerf::apps
