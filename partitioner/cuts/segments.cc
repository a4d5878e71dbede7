#include "partitioner/cuts/segments.h"

#include <algorithm>

#include "partitioner/cuts/spread.h"

namespace kerf::partitioner {

LayerFacts::LayerFacts(const Model& m, const PlanRequest& r, const Objective& o)
    : model(m),
      request(r),
      objective(o),
      computations(whole_computations(m)),
      sizes(micro_batch_sizes(r.batch, r.micro_batches)) {
  measure_workspace(model, computations, sizes.front(), r.setting.threads);
  for (const Computation& c : computations) prices.push_back(price(model, request, c.node, c.iterations));
}

// Of one step: a value, and its gradient.
double LayerFacts::wire_bytes(ValueId value) const {
  return (model.needs_gradient(value) ? 2.0 : 1.0) *
         static_cast<double>(model.value(value).spec.bytes(request.batch));
}

double LayerFacts::wire_seconds(ValueId value) const {
  const double messages =
      (model.needs_gradient(value) ? 2.0 : 1.0) * static_cast<double>(sizes.size());
  return wire_bytes(value) / request.speed.link_bytes_per_second +
         messages * request.speed.link_seconds;
}

int LayerFacts::held_after(int stage) const {
  int most = 0;
  for (int t = stage + 1; t < stages(); ++t)
    most = std::max(most, objective.in_flight(t, stages(), request.micro_batches));
  return most;
}

Segments::Segments(const LayerFacts& facts, const std::vector<NodeId>& order)
    : facts_(facts), order_(order), position_(order.size()), summed_(order.size() + 1) {
  for (size_t p = 0; p < order.size(); ++p) {
    position_[static_cast<size_t>(order[p])] = static_cast<int>(p);
    summed_[p + 1] = summed_[p] + facts.prices[static_cast<size_t>(order[p])];
  }
  find_entering();
  find_ties();
}

bool Segments::parts_users(int i, int j) const {
  return std::any_of(ties_.begin(), ties_.end(), [&](const std::pair<int, int>& tie) {
    return (tie.first < i && i <= tie.second) || (tie.first < j && j <= tie.second);
  });
}

bool Segments::parts_loss(int i, int j) const {
  return (scores_ < i && i <= loss_) || (scores_ < j && j <= loss_);
}

int64_t Segments::lasting(int s, int i, int j) {
  const StageMemory& own = stage(i, j);
  const int flight = facts_.objective.in_flight(s, facts_.stages(), facts_.request.micro_batches);
  return own.persistent(facts_.request.setting.optimizer_states) + flight * own.kept;
}

// Distinct values that enter [i, j): each counts from its first reader in the segment on.
void Segments::find_entering() {
  bytes_.assign(order_.size() * (order_.size() + 1), 0);
  seconds_.assign(bytes_.size(), 0);
  std::vector<int> seen(static_cast<size_t>(facts_.model.values()), -1);
  for (int i = 0; i < size(); ++i) {
    double bytes = 0;
    double seconds = 0;
    for (int j = i; j < size(); ++j) {
      for (const ValueId value : facts_.model.node(order_[static_cast<size_t>(j)]).inputs) {
        const NodeId producer = facts_.model.value(value).producer;
        if (producer < 0 || position(producer) >= i || seen[static_cast<size_t>(value)] == i)
          continue;
        seen[static_cast<size_t>(value)] = i;
        bytes += facts_.wire_bytes(value);
        seconds += facts_.wire_seconds(value);
      }
      bytes_[cell(i, j + 1)] = bytes;
      seconds_[cell(i, j + 1)] = seconds;
    }
  }
}

void Segments::find_ties() {
  for (const ValueId id : facts_.model.parameters()) {
    int first = size();
    int last = 0;
    for (const Use& use : facts_.model.uses(id)) {
      first = std::min(first, position(use.node));
      last = std::max(last, position(use.node));
    }
    if (first < last) ties_.emplace_back(first, last);
  }
  const NodeId loss = facts_.model.loss();
  if (loss < 0) return;
  loss_ = position(loss);
  const NodeId scorer = facts_.model.value(facts_.model.node(loss).inputs[0]).producer;
  scores_ = scorer < 0 ? loss_ : position(scorer);
}

std::vector<NodeId> Segments::sorted(int i, int j) const {
  std::vector<NodeId> nodes(order_.begin() + i, order_.begin() + j);
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

const StageMemory& Segments::stage(int i, int j) {
  const auto [at, is_new] = memory_.try_emplace({i, j});
  if (is_new) {
    std::vector<const Computation*> mine;
    for (const NodeId node : sorted(i, j))
      mine.push_back(&facts_.computations[static_cast<size_t>(node)]);
    at->second = stage_memory(facts_.model, mine, facts_.sizes.front());
  }
  return at->second;
}

// How many later stages read a value, at most.
int64_t Segments::readers(int s, int j, ValueId value) const {
  int64_t outside = 0;  // each may be another stage
  for (const Use& use : facts_.model.uses(value)) outside += position(use.node) >= j ? 1 : 0;
  return std::min<int64_t>(outside, facts_.stages() - 1 - s);
}

// Values that the segment reads and does not make.
std::vector<ValueId> Segments::entering(int i, int j) const {
  std::vector<ValueId> values;
  for (int p = i; p < j; ++p)
    for (const ValueId value : facts_.model.node(order_[static_cast<size_t>(p)]).inputs) {
      const NodeId producer = facts_.model.value(value).producer;
      if (producer >= 0 && position(producer) < i) values.push_back(value);
    }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// Of the values and gradients that a stage sends and, if slots are mirrored, of those it receives.
int64_t Segments::slot_memory(int s, int i, int j) const {
  const int slots = facts_.request.setting.slots;
  const bool mirrored = facts_.request.setting.mirrored;
  const int64_t leaving_slots = facts_.held_after(s) + slots;
  const int64_t gradient_slots = 1 + slots;
  int64_t bytes = 0;
  for (int p = i; p < j; ++p)
    for (const ValueId value : facts_.model.node(order_[static_cast<size_t>(p)]).outputs) {
      const bool back = mirrored && facts_.model.needs_gradient(value);
      bytes += readers(s, j, value) * (leaving_slots + (back ? gradient_slots : 0)) *
               facts_.bytes(value);
    }
  for (const ValueId value : entering(i, j)) {
    if (facts_.model.needs_gradient(value)) bytes += gradient_slots * facts_.bytes(value);
    if (mirrored) bytes += (facts_.held_after(s - 1) + slots) * facts_.bytes(value);
  }
  const int channels = (facts_.stages() - 1) * (mirrored ? 2 : 1);
  return bytes == 0 ? 0 : whole_pages(bytes) + (channels - 1) * kPage;
}

}  // namespace kerf::partitioner
