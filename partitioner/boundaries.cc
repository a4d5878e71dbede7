#include "partitioner/boundaries.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "partitioner/complete_plan.h"
#include "partitioner/connected_plan.h"
#include "partitioner/connector.h"
#include "partitioner/model_graph.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

constexpr double kWorthMoving = 0.05;  // of the bottleneck

// The request under which a plan with other stages is to be compared.
PlanRequest request_of(const Plan& plan) {
  PlanRequest request = request_of_plan(plan);
  request.cut = plan.cut;
  request.schedule = plan.schedule;
  request.workers = plan.parts();
  request.placement = plan.binding;
  return request;
}

// Of activations, forward.
bool carries_values(const Model& model, const Plan& plan, const Route& route) {
  if (route.gradient) return false;
  const RouteKind kind = kind_of(model, plan.division, route);
  return kind != RouteKind::kWeight && kind != RouteKind::kStep;
}

class BoundarySearch {
 public:
  BoundarySearch(const Model& model, const Plan& plan, const InFlight& in_flight)
      : model_(model),
        plan_(plan),
        in_flight_(in_flight),
        request_(request_of(plan)),
        stage_of_(stages_of_nodes(plan, model.nodes())),
        stage_of_part_(stages_of_parts(plan)),
        stays_(staying()),
        apart_(lists_apart()),
        now_(figures_of(model, plan)),
        implied_(model, plan),
        speeds_(request_.speeds_of_parts()),
        traffic_(predict_traffic(model, plan, plan.batch)) {}

  Boundary between(int before) {
    Boundary boundary;
    boundary.before = before;
    find_crossing(boundary);
    for (const int to : {before + 1, before}) {
      const std::vector<NodeId> nodes = movable(to == before ? before + 1 : before, to);
      if (nodes.empty())
        boundary.fixed.push_back(format("nothing of stage {} can be in stage {}",
                                        to == before ? before + 1 : before, to));
      else
        boundary.moves.push_back({nodes, to, figures_with(nodes, to)});
    }
    return boundary;
  }

 private:
  int stage_of(NodeId node) const { return stage_of_[static_cast<size_t>(node)]; }

  void find_crossing(Boundary& boundary) const {
    std::set<ValueId> crossing;
    for (size_t r = 0; r < plan_.routes.size(); ++r) {
      const Route& route = plan_.routes[r];
      if (!carries_values(model_, plan_, route)) continue;
      const NodeId producer = model_.value(route.value).producer;
      if (producer < 0 || stage_of_part(route.from) > boundary.before ||
          stage_of_part(route.to) <= boundary.before)
        continue;
      crossing.insert(route.value);
      boundary.bytes += traffic_[r].bytes;
    }
    boundary.crossing.assign(crossing.begin(), crossing.end());
  }
  int stage_of_part(int part) const { return stage_of_part_[static_cast<size_t>(part)]; }

  // The operators of `from` that lie next to `to`, in the order of moving.
  std::vector<NodeId> movable(int from, int to) const {
    std::vector<NodeId> nodes = plan_.stages[static_cast<size_t>(from)].nodes;
    const size_t all = nodes.size();
    if (to > from) std::reverse(nodes.begin(), nodes.end());
    std::set<NodeId> moved;
    double work = 0;
    for (const NodeId node : nodes) {
      if (work >= kWorthMoving * now_.bottleneck || moved.size() + 1 >= all) break;
      if (stays(node) || meets_another(node, to) || !may_move(node, to, moved)) continue;
      moved.insert(node);
      work += work_of(node);
    }
    return {moved.begin(), moved.end()};
  }

  double work_of(NodeId node) const {
    double work = 0;
    for (const ops::Share& share : plan_.division.nodes[static_cast<size_t>(node)].shares)
      work = std::max(work, node_work(model_, request_, node, share.box).total());
    return work;
  }

  // Those that share what a stage keeps, those that are together, and those that have their place.
  std::vector<bool> staying() const {
    std::vector<bool> result(static_cast<size_t>(model_.nodes()));
    const CostGraph graph = cost_graph_of(model_, request_);
    for (NodeId node = 0; node < model_.nodes(); ++node)
      result[static_cast<size_t>(node)] = graph.node(node).colour >= 0;
    for (const PlaceRule& rule : request_.steering.places)
      for (const int node : nodes_that_fit(model_, rule.pattern, rule.where()))
        result[static_cast<size_t>(node)] = true;
    return result;
  }
  bool stays(NodeId node) const { return stays_[static_cast<size_t>(node)]; }

  // By --apart and list: its nodes.
  std::vector<std::vector<std::set<int>>> lists_apart() const {
    std::vector<std::vector<std::set<int>>> result;
    for (const std::vector<std::string>& patterns : request_.steering.apart) {
      std::vector<std::set<int>>& lists = result.emplace_back();
      for (const std::string& pattern : patterns) {
        const std::vector<int> nodes = nodes_that_fit(model_, pattern, "--apart");
        lists.emplace_back(nodes.begin(), nodes.end());
      }
    }
    return result;
  }

  // Whether the worker of stage `to` has something that the node is to be apart from.
  bool meets_another(NodeId node, int to) const {
    const auto worker_of = [&](int stage) {
      return plan_.binding[static_cast<size_t>(plan_.stages[static_cast<size_t>(stage)].parts[0])];
    };
    const auto is_there = [&](int other) { return worker_of(stage_of(other)) == worker_of(to); };
    for (const auto& lists : apart_)
      for (const auto& own : lists) {
        if (!own.contains(node)) continue;
        for (const auto& other : lists)
          if (&other != &own && std::any_of(other.begin(), other.end(), is_there)) return true;
      }
    return false;
  }

  // Whether all that it reads is made no later, or all that reads it comes no earlier.
  bool may_move(NodeId node, int to, const std::set<NodeId>& moved) const {
    if (to > stage_of(node)) {
      for (const ValueId output : model_.node(node).outputs)
        for (const Use& use : model_.uses(output))
          if (stage_of(use.node) < to && !moved.contains(use.node)) return false;
      return true;
    }
    for (const ValueId input : model_.node(node).inputs) {
      const NodeId producer = input < 0 ? -1 : model_.value(input).producer;
      if (producer >= 0 && stage_of(producer) > to && !moved.contains(producer)) return false;
    }
    return true;
  }

  PlanFigures figures_with(const std::vector<NodeId>& nodes, int to) const {
    const std::set<NodeId> moved(nodes.begin(), nodes.end());
    Assignment other{plan_.stages, plan_.division, 0};
    const int from = stage_of(nodes[0]);
    std::vector<NodeId>& left = other.stages[static_cast<size_t>(from)].nodes;
    std::erase_if(left, [&](NodeId node) { return moved.contains(node); });
    std::vector<NodeId>& taken = other.stages[static_cast<size_t>(to)].nodes;
    taken.insert(taken.end(), nodes.begin(), nodes.end());
    std::sort(taken.begin(), taken.end());
    divide_anew(std::min(from, to), other);
    Plan plan = connected_plan(model_, request_, other);
    plan.workers = predict(model_, plan, request_, in_flight_);
    plan.bottleneck = bottleneck_of(model_, plan, request_);
    return figures_of(model_, plan);
  }

  // What follows in one of the two stages follows other divisions, too.
  void divide_anew(int before, Assignment& other) const {
    const int64_t largest = plan_.division.largest;
    std::vector<std::pair<NodeId, int>> nodes;
    for (const int stage : {before, before + 1})
      for (const NodeId node : other.stages[static_cast<size_t>(stage)].nodes)
        nodes.emplace_back(node, stage);
    std::sort(nodes.begin(), nodes.end());
    for (const auto& [node, stage] : nodes) {
      const Stage& on = other.stages[static_cast<size_t>(stage)];
      // A hybrid plan's stage may go by sample (cuts/groups.h).
      auto division = goes_by_sample(stage)
                          ? divide_by_samples(model_.op(node).space(), on.parts, largest, speeds_)
                          : implied_.of(on, node, other.division);
      KERF_CHECK(division, "a free cut has one stage");
      other.division.nodes[static_cast<size_t>(node)] = *std::move(division);
    }
  }

  bool goes_by_sample(int number) const {
    const Stage& stage = plan_.stages[static_cast<size_t>(number)];
    return std::all_of(stage.nodes.begin(), stage.nodes.end(), [&](NodeId node) {
      return plan_.division.nodes[static_cast<size_t>(node)] ==
             divide_by_samples(model_.op(node).space(), stage.parts, plan_.division.largest,
                               speeds_);
    });
  }

  const Model& model_;
  const Plan& plan_;
  const InFlight& in_flight_;
  const PlanRequest request_;
  const std::vector<int> stage_of_;
  const std::vector<int> stage_of_part_;
  const std::vector<bool> stays_;  // by node
  const std::vector<std::vector<std::set<int>>> apart_;
  const PlanFigures now_;
  const ImpliedDivisions implied_;
  const std::vector<double> speeds_;
  const std::vector<Traffic> traffic_;  // by route
};

}  // namespace

PlanFigures figures_of(const Model& model, const Plan& plan) {
  PlanFigures figures{.bottleneck = plan.bottleneck};
  for (const WorkerPrediction& worker : plan.workers)
    figures.peak_bytes = std::max(figures.peak_bytes, worker.peak_bytes);
  const std::vector<Traffic> traffic = predict_traffic(model, plan, plan.batch);
  for (size_t r = 0; r < plan.routes.size(); ++r)
    if (carries_values(model, plan, plan.routes[r])) figures.cut_bytes += traffic[r].bytes;
  return figures;
}

std::vector<Boundary> boundaries_of(const Model& model, const Plan& plan,
                                    const InFlight& in_flight) {
  std::vector<Boundary> result;
  BoundarySearch boundaries(model, plan, in_flight);
  for (int before = 0; before + 1 < static_cast<int>(plan.stages.size()); ++before)
    result.push_back(boundaries.between(before));
  return result;
}

}  // namespace kerf::partitioner
