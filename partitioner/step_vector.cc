#include "partitioner/step_vector.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "partitioner/plan.h"
#include "partitioner/sources.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {
namespace {

// Of homes of one box the first.
bool speaks_for(const std::vector<ops::Share>& homes, size_t home) {
  return std::none_of(homes.begin(), homes.begin() + static_cast<std::ptrdiff_t>(home),
                      [&](const ops::Share& other) { return other.box == homes[home].box; });
}

class Members {
 public:
  Members(const Sources& sources, int micro_batches)
      : sources_(sources), vector_(sources.model(), micro_batches) {}

  std::vector<StepMember> find() {
    for (const Computation& computation : sources_.computations())
      if (!computation.iterations.empty()) add(computation);
    for (const ValueId value : sources_.model().parameters())
      if (sources_.differentiable(value)) add_homes(value);
    std::vector<StepMember> members;
    for (const auto& [part, entries] : says_)
      members.push_back({part, ops::IndexSet::of(entries), updates_.contains(part)});
    return members;
  }

 private:
  // Replicas agree, so the first of them speaks.
  void add(const Computation& computation) {
    const Model& model = sources_.model();
    const bool first = spoken_.insert({computation.node, computation.box_number}).second;
    if (computation.node == model.loss() && first)
      for (int m = 0; m < vector_.micro_batches; ++m)
        for (const int entry : {vector_.loss_of(m), vector_.correct_of(m)})
          says_[computation.part].push_back(entry);
    for (const ops::StateUpdate& update : model.op(computation.node).state_updates()) {
      updates_.insert(computation.part);
      std::vector<int64_t>& says = says_[computation.part];
      const ValueId state = model.node(computation.node).inputs[static_cast<size_t>(update.input)];
      if (first) says.push_back(vector_.norm_of(model.value(state)));
    }
  }

  void add_homes(ValueId value) {
    const std::vector<ops::Share>& homes = sources_.shares(value);
    for (size_t i = 0; i < homes.size(); ++i) {
      updates_.insert(homes[i].part);
      std::vector<int64_t>& says = says_[homes[i].part];
      if (speaks_for(homes, i)) says.push_back(vector_.norm_of(sources_.model().value(value)));
    }
  }

  const Sources& sources_;
  const StepVector vector_;
  std::map<int, std::vector<int64_t>> says_;  // by part
  std::set<int> updates_;
  std::set<std::pair<NodeId, int>> spoken_;  // node, box number
};

Route route_of(int id, int from, int to, ops::IndexSet entries) {
  return {id, kStepVector, true, from, to, {{ops::Box{{std::move(entries)}}}}};
}

}  // namespace

StepVector::StepVector(const Model& model, int micro_batches_in)
    : micro_batches(micro_batches_in), kept(static_cast<int>(model.kept_values().size())) {}

std::string entry_name(const Model& model, const StepVector& vector, int entry) {
  const int number = entry - vector.kResults - 2 * vector.micro_batches;
  if (number < 0) return "the loss";
  for (const ValueId value : model.kept_values())
    if (static_cast<int>(model.value(value).parameter) == number)
      return format("the {} {}",
                    model.value(value).role == Role::kParameter ? "gradient of" : "statistics for",
                    model.value(value).name);
  return format("entry {}", entry);
}

void conclude(const Model& model, const StepVector& vector, std::span<const double> sums,
              double* result) {
  const auto at = [&](int entry) { return sums[static_cast<size_t>(entry)]; };
  std::fill(result, result + StepVector::kResults, 0.0);
  for (int entry = vector.size() - 1; entry >= StepVector::kResults; --entry)
    if (!std::isfinite(at(entry))) result[StepVector::kCause] = entry;
  for (int m = 0; m < vector.micro_batches; ++m) {
    result[StepVector::kLoss] += at(vector.loss_of(m));
    result[StepVector::kCorrect] += at(vector.correct_of(m));
  }
  for (ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == Role::kParameter)
      result[StepVector::kSquaredNorm] += at(vector.norm_of(model.value(id)));
}

std::vector<StepMember> step_members(const Sources& sources, int micro_batches) {
  return Members(sources, micro_batches).find();
}

std::vector<Route> step_routes(const Sources& sources, int micro_batches, int first_id) {
  const std::vector<StepMember> members = step_members(sources, micro_batches);
  std::vector<Route> routes;
  for (size_t i = 1; i < members.size(); ++i)
    if (!members[i].says.empty())
      routes.push_back(route_of(first_id++, members[i].part, members[0].part, members[i].says));
  for (size_t i = 1; i < members.size(); ++i)
    if (members[i].updates)
      routes.push_back(route_of(first_id++, members[0].part, members[i].part,
                                ops::IndexSet::range(0, StepVector::kResults)));
  return routes;
}

std::vector<Route> all_routes(const Model& model, const Plan& plan) {
  const Sources sources(model, plan.division, stages_of_parts(plan));
  return all_routes(Sums(sources), plan.micro_batches);
}

std::vector<Route> all_routes(const Sums& sums, int micro_batches) {
  std::vector<Route> routes = connect(sums);
  for (Route& route : step_routes(sums.sources(), micro_batches, static_cast<int>(routes.size())))
    routes.push_back(std::move(route));
  return routes;
}

}  // namespace kerf::partitioner
