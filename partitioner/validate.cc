// Checks plans, however they came to be, against what the cuts and connectors promise.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "partitioner/cost_graph.h"
#include "partitioner/gradients.h"
#include "partitioner/plan.h"
#include "partitioner/replicas.h"
#include "partitioner/route_index.h"
#include "partitioner/step_vector.h"

namespace kerf::partitioner {

namespace {

class Checker {
 public:
  Checker(const Model& model, const Plan& plan) : model_(model), plan_(plan) {}

  std::vector<std::string> check() {
    check_header();
    check_binding();
    check_stages();
    check_replicas();
    if (problems_.empty()) check_stage_graph();
    if (problems_.empty()) check_layouts();
    if (problems_.empty()) check_connectors();  // only these index by what was checked above
    if (problems_.empty()) check_predictions();
    return std::move(problems_);
  }

  std::vector<std::string> check_decisions() {
    all_laid_out_ = false;
    check_header();
    check_binding();
    check_stages();
    check_replicas();
    if (problems_.empty()) check_stage_graph();
    if (problems_.empty()) check_layouts();
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    problems_.push_back(format(text, std::forward<Args>(args)...));
  }
  bool is_part(int part) const { return part >= 0 && part < plan_.parts(); }

  void check_header() {
    if (plan_.model != model_.name() || plan_.fingerprint != model_.fingerprint())
      problem("it is for model {} ({}), not {} ({})", plan_.model, plan_.fingerprint, model_.name(),
              model_.fingerprint());
    if (plan_.batch < 1 || plan_.batch > kMostRows)
      problem("the batch of {} rows is not within 1 and {}", plan_.batch, kMostRows);
    if (plan_.micro_batches < 1 || plan_.micro_batches > kMostMicroBatches ||
        plan_.micro_batches > plan_.batch)
      problem("{} micro-batches of a batch of {} rows", plan_.micro_batches, plan_.batch);
    else if (const std::string wrong =
                 check_given_sizes(plan_.micro_batches, plan_.given_sizes, plan_.batch);
             !wrong.empty())
      problem("{}", wrong);
    if (plan_.schedule.empty()) problem("it names no schedule");
    if (!std::isfinite(plan_.bottleneck) || !std::isfinite(plan_.bound.value_or(0)))
      problem("bottleneck and bound must be finite");
  }

  void check_binding() {
    if (plan_.binding.empty()) problem("it binds no part to a worker");
    for (size_t part = 0; part < plan_.binding.size(); ++part)
      if (const int worker = plan_.binding[part]; worker < 0 || worker >= kMostWorkers) {
        problem("part {} is bound to worker {}, which is not within 0 and {}", part, worker,
                kMostWorkers - 1);
        return;
      }
    if (plan_.parts() > kMostParts)
      problem("it has {} parts, which is more than {}", plan_.parts(), kMostParts);
    const std::set<int> workers(plan_.binding.begin(), plan_.binding.end());
    if (plan_.workers_bound() > std::ssize(workers)) {
      int missing = 0;
      while (workers.contains(missing)) ++missing;
      problem(
          "a part is bound to worker {}, but none to worker {}: give workers numbers without gaps",
          plan_.workers_bound() - 1, missing);
    }
  }

  void check_stages() {
    if (plan_.stages.empty()) problem("it has no stages");
    check_nodes();
    std::map<int, size_t> stage_of_part;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& stage = plan_.stages[s];
      if (stage.nodes.empty()) problem("stage {} has no operators", s);
      if (!std::is_sorted(stage.nodes.begin(), stage.nodes.end()))
        problem("the operators of stage {} are not in model order", s);
      if (stage.parts.empty()) problem("stage {} has no parts", s);
      const std::set<int> distinct(stage.parts.begin(), stage.parts.end());
      if (distinct.size() != stage.parts.size()) problem("stage {} names a part twice", s);
      for (const int part : distinct) {
        if (!is_part(part)) problem("stage {} has part {}, which does not exist", s, part);
        const auto [known, is_new] = stage_of_part.emplace(part, s);
        if (!is_new)
          problem("part {} is in stages {} and {}; give each stage parts of its own", part,
                  known->second, s);
      }
    }
  }

  // Each node is in one stage.
  void check_nodes() {
    std::vector<std::vector<size_t>> stages_of(static_cast<size_t>(model_.nodes()));
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      for (const NodeId node : plan_.stages[s].nodes)
        if (node < 0 || node >= model_.nodes())
          problem("stage {} has operator number {}, which does not exist", s, node);
        else
          stages_of[static_cast<size_t>(node)].push_back(s);
    for (NodeId node = 0; node < model_.nodes(); ++node)
      if (const auto& stages = stages_of[static_cast<size_t>(node)]; stages.empty())
        problem("node {} is in no stage", model_.node(node).name);
      else if (stages.size() > 1)
        problem("node {} is in {}, must be in one", model_.node(node).name,
                stages.front() == stages.back()
                    ? format("stage {} {} times", stages.front(), stages.size())
                    : format("stages {}", fmt::join(stages, " and ")));
  }

  void check_replicas() {
    if (!problems_.empty()) return;
    for (std::string& each : partitioner::check_replicas(plan_))
      problems_.push_back(std::move(each));
  }

  void check_stage_graph() {
    const std::vector<int> stage_of = stages_of_nodes(plan_, model_.nodes());
    std::vector<std::pair<int, int>> edges;
    std::map<std::pair<int, int>, std::pair<NodeId, NodeId>> backwards;  // and the first of them
    const auto [begin, end] = boost::edges(model_.graph());
    for (auto edge = begin; edge != end; ++edge) {
      const auto maker = boost::source(*edge, model_.graph());
      const auto reader = boost::target(*edge, model_.graph());
      const int from = stage_of[maker];
      const int to = stage_of[reader];
      if (from != to) edges.emplace_back(from, to);
      if (from > to)
        backwards.try_emplace({from, to}, static_cast<NodeId>(maker), static_cast<NodeId>(reader));
    }
    const bool acyclic = is_acyclic(static_cast<int>(plan_.stages.size()), edges);
    for (const auto& [stages, nodes] : backwards)
      problem("{} of stage {} feeds {} of stage {}: {}", model_.node(nodes.first).name,
              stages.first, model_.node(nodes.second).name, stages.second,
              acyclic ? "stages must be numbered in the order in which they run"
                      : "the graph of stages has a cycle");
  }

  void check_layouts() {
    if (plan_.layouts.size() != static_cast<size_t>(model_.values())) {
      problem("it has {} layouts for {} values", plan_.layouts.size(), model_.values());
      return;
    }
    const int64_t rows = plan_.largest_micro_batch();
    const std::vector<int> stage_of = stages_of_nodes(plan_, model_.nodes());
    const Gradients gradients(model_);
    for (ValueId id = 0; id < model_.values(); ++id) {
      const Value& value = model_.value(id);
      const ops::Layout& layout = plan_.layouts[static_cast<size_t>(id)];
      if (!all_laid_out_ && layout.shares.empty()) continue;
      const std::string why = ops::check_layout(layout, value.spec.shape.with_batch(rows));
      // What is kept and has no gradient lies wherever it is read (homes.h): check_connectors().
      const bool overlaps = ops::is_kept(value.role) && !gradients.of(id);
      if (!why.empty() && !overlaps) problem("the layout of {}: {}", value.name, why);
      const int stage = value.producer < 0 ? -1 : stage_of[static_cast<size_t>(value.producer)];
      std::set<int> group;
      if (stage >= 0) {
        const std::vector<int>& parts = plan_.stages[static_cast<size_t>(stage)].parts;
        group.insert(parts.begin(), parts.end());
      }
      for (const ops::Share& share : layout.shares)
        if (!is_part(share.part) || (value.producer >= 0 && !group.contains(share.part)))
          problem("the layout of {} has a share on part {}, which is not of its stage", value.name,
                  share.part);
    }
    check_division();
    check_busy();
  }

  void check_division() {
    if (plan_.division.nodes.size() != static_cast<size_t>(model_.nodes())) {
      problem("it divides {} nodes of {}", plan_.division.nodes.size(), model_.nodes());
      return;
    }
    const int64_t largest = plan_.largest_micro_batch();
    if (plan_.division.largest != largest)
      problem("its divisions are for micro-batches of {} rows, but the largest has {}",
              plan_.division.largest, largest);
    for (const Stage& stage : plan_.stages)
      for (const NodeId node : stage.nodes)
        for (const ops::Share& share : plan_.division.nodes[static_cast<size_t>(node)].shares)
          if (!is_part(share.part) ||
              std::find(stage.parts.begin(), stage.parts.end(), share.part) == stage.parts.end())
            problem("node {} is divided over part {}, which is not of its stage",
                    model_.node(node).name, share.part);
  }

  void check_busy() {
    std::set<int> busy;
    for (const ops::Layout& division : plan_.division.nodes)
      for (const ops::Share& share : division.shares) busy.insert(share.part);
    for (int part = 0; part < plan_.parts(); ++part)
      if (!busy.contains(part)) problem("part {} has nothing to compute", part);
  }

  void check_connectors() {
    try {
      const std::vector<ops::Layout> complete = layouts_of(model_, plan_.division);
      for (ValueId id = 0; id < model_.values(); ++id) {
        const auto& have = plan_.layouts[static_cast<size_t>(id)];
        const auto& must = complete[static_cast<size_t>(id)];
        if (have == must) continue;
        problem("the layout of {} is {}, but what is computed needs {}{}", model_.value(id).name,
                ops::describe(have), ops::describe(must), difference(have, must));
      }
      if (problems_.empty()) compare_routes(all_routes(model_, plan_));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      problem("{}", error.what());
    }
  }

  // Where they read the same: the first share that does not.
  static std::string difference(const ops::Layout& have, const ops::Layout& must) {
    if (ops::describe(have) != ops::describe(must)) return "";
    const auto sums = [](const ops::Share& share) {
      std::vector<std::string> sets;
      for (const ops::IndexSet& set : share.slices) sets.push_back(ops::to_string(set));
      return format("{} of {}", fmt::join(sets, " and "), ops::to_string(share.box));
    };
    for (size_t i = 0; i < std::min(have.shares.size(), must.shares.size()); ++i)
      if (have.shares[i] != must.shares[i])
        return format(": part {} sums {}, and must sum {}", have.shares[i].part,
                      sums(have.shares[i]), sums(must.shares[i]));
    return "";
  }

  std::string name_of(const Route& route) const {
    return format("the route of {} from part {} to part {}", partitioner::name_of(model_, route),
                  route.from, route.to);
  }

  void compare_routes(const std::vector<Route>& must) {
    const RouteIndex have(plan_.routes);
    const RouteIndex wanted(must);
    const auto same_place = [](const RouteIndex& in, const Route& route) {
      return in.find(route.value, route.gradient, route.leg, route.from, route.to);
    };
    for (const Route& route : must)
      if (same_place(have, route) == nullptr) problem("{} is missing", name_of(route));
    for (const Route& route : plan_.routes) {
      if (route.value < kStepVector || route.value >= model_.values()) {
        problem("a route carries value number {}, which does not exist", route.value);
        continue;
      }
      const Route* at = same_place(wanted, route);
      if (at == nullptr)
        problem("{} carries nothing that is needed", name_of(route));
      else if (*at != route)
        problem("{} differs from what the layouts need", name_of(route));
    }
    if (problems_.empty() && plan_.routes != must)
      problem("its routes are not in order, or one is there twice");
  }

  void check_predictions() {
    if (plan_.workers.size() != static_cast<size_t>(plan_.workers_bound())) {
      problem("it predicts for {} workers, but has {}", plan_.workers.size(),
              plan_.workers_bound());
      return;
    }
    std::vector<WorkerPrediction> must(plan_.workers.size());
    add_traffic(model_, plan_, must);
    for (size_t w = 0; w < must.size(); ++w) {
      const WorkerPrediction& have = plan_.workers[w];
      if (have.worker != static_cast<int>(w))
        problem("prediction {} is of worker {}", w, have.worker);
      if (std::min({have.forward_flops, have.seconds}) < 0 ||
          std::min({have.weight_bytes, have.activation_bytes, have.peak_bytes}) < 0)
        problem("worker {} is predicted less than nothing", w);
      if (have.messages != must[w].messages || have.bytes_in != must[w].bytes_in ||
          have.bytes_out != must[w].bytes_out)
        problem(
            "worker {} is predicted {} messages, {} bytes in and {} out, but its routes make {}, "
            "{} and {}",
            w, have.messages, have.bytes_in, have.bytes_out, must[w].messages, must[w].bytes_in,
            must[w].bytes_out);
    }
  }

  const Model& model_;
  const Plan& plan_;
  bool all_laid_out_ = true;  // data and parameters too
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> validate(const Model& model, const Plan& plan) {
  return Checker(model, plan).check();
}

std::vector<std::string> validate_decisions(const Model& model, const Plan& plan) {
  return Checker(model, plan).check_decisions();
}

}  // namespace kerf::partitioner
