#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "partitioner/complete_plan.h"
#include "partitioner/cost.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::partitioner {
namespace {

std::vector<NodeId> random_order(const Model& model, Random& random) {
  std::vector<NodeId> order;
  std::set<NodeId> done;
  while (std::ssize(order) < model.nodes()) {
    std::vector<NodeId> ready;
    for (NodeId node = 0; node < model.nodes(); ++node) {
      const auto& inputs = model.node(node).inputs;
      const bool can = std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
        return input < 0 || model.value(input).producer < 0 ||
               done.contains(model.value(input).producer);
      });
      if (can && !done.contains(node)) ready.push_back(node);
    }
    order.push_back(ready[static_cast<size_t>(draw(random, std::ssize(ready)))]);
    done.insert(order.back());
  }
  return order;
}

// Stretches of an order, none of them empty.
std::vector<Stage> random_stages(const Model& model, int most, Random& random) {
  std::vector<NodeId> order = random_order(model, random);
  std::set<size_t> ends{order.size()};
  for (int left = draw(random, most); left > 0; --left)
    ends.insert(1 + static_cast<size_t>(draw(random, std::ssize(order))));
  std::vector<Stage> stages;
  size_t begin = 0;
  for (const size_t end : ends) {
    Stage& stage = stages.emplace_back();
    stage.nodes.assign(order.begin() + static_cast<int64_t>(begin),
                       order.begin() + static_cast<int64_t>(end));
    std::sort(stage.nodes.begin(), stage.nodes.end());
    stage.interleaved = draw(random, 2) == 0;
    begin = end;
  }
  return stages;
}

// Of each of a stage's parts; a worker may have several of them.
std::vector<int> random_workers(const Placing& placing, Random& random) {
  std::vector<int> workers(placing.divides ? 1 + static_cast<size_t>(draw(random, placing.workers))
                                           : 1);
  for (int& worker : workers) worker = draw(random, placing.workers);
  return workers;
}

// Divides the stage's nodes over one part per worker named; parts without work there are not.
void divide_stage(const Model& model, Stage& stage, const std::vector<int>& workers, Plan& plan,
                  Random& random) {
  std::vector<int> shares(workers.size());
  std::iota(shares.begin(), shares.end(), 0);
  std::set<int> busy;
  for (const NodeId node : stage.nodes) {
    ops::Layout& layout = plan.division.nodes[static_cast<size_t>(node)];
    layout = random_layout(model, node, shares, plan.division.largest, random);
    for (const ops::Share& share : layout.shares) busy.insert(share.part);
  }
  std::map<int, int> part_of;
  for (const int share : busy) {
    part_of[share] = plan.parts();
    stage.parts.push_back(plan.parts());
    plan.binding.push_back(workers[static_cast<size_t>(share)]);
  }
  for (const NodeId node : stage.nodes)
    for (ops::Share& share : plan.division.nodes[static_cast<size_t>(node)].shares)
      share.part = part_of.at(share.part);
}

// The workers that have something to do, from 0 on.
void close_gaps(std::vector<int>& binding) {
  const std::set<int> used(binding.begin(), binding.end());
  for (int& worker : binding)
    worker = static_cast<int>(std::distance(used.begin(), used.find(worker)));
}

}  // namespace

void Placing::give_sizes(Random& random) {
  given_sizes.assign(static_cast<size_t>(micro_batches), 1);
  for (int64_t left = batch - micro_batches; left > 0; --left)
    ++given_sizes[static_cast<size_t>(draw(random, micro_batches))];
}

Plan random_plan(const Model& model, const Placing& placing, Random& random) {
  Plan plan;
  plan.model = model.name();
  plan.fingerprint = model.fingerprint();
  plan.cut = placing.divides ? Cut::kFree : Cut::kLayer;
  plan.batch = placing.batch;
  plan.micro_batches = placing.micro_batches;
  plan.given_sizes = placing.given_sizes;
  plan.schedule = "gpipe";
  plan.stages = random_stages(model, placing.stages, random);
  plan.division.largest = plan.largest_micro_batch();
  plan.division.nodes.resize(static_cast<size_t>(model.nodes()));
  for (Stage& stage : plan.stages)
    divide_stage(model, stage, random_workers(placing, random), plan, random);
  close_gaps(plan.binding);
  const auto values = static_cast<size_t>(model.values());
  plan.layouts.resize(values);
  complete_plan(model, {std::vector<bool>(values, true), true, true, true, true}, {}, plan);
  return plan;
}

}  // namespace kerf::partitioner
