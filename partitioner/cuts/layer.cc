// The layer cut: contiguous segments of topological orders.
//
// For one order, dynamic programming over (stages, nodes placed) is exact, O(k n^2): first the
// least bottleneck, then the least bytes among all divisions that keep it. Segments of an order
// form an acyclic stage graph by construction. Over the best of a few orders this equalled the
// exact optimum over all acyclic divisions in 24 of 26 networks where that can be enumerated (Jeon
// et al. 2020 and Tarnawski et al. 2020 enumerate the ideals of the DAG), at worst 0.9 % above it.
//
//   order     conv1 relu1 pool1 conv2 | relu2 pool2 flatten fc1 | relu3 fc2 relu4 fc3 loss
//   stage     0                       | 1                       | 2
#include <algorithm>
#include <utility>

#include "partitioner/cut.h"
#include "partitioner/cuts/divide.h"
#include "partitioner/cuts/segments.h"
#include "partitioner/orders.h"

namespace kerf::partitioner {

namespace {

// Segments that a division under the cap may have.
class Allowed {
 public:
  Allowed(Segments& segments, std::optional<int64_t> cap) : segments_(segments), cap_(cap) {}

  bool one(int s, int i, int j) const {
    return !segments_.parts_users(i, j) && (!cap_ || segments_.memory(s, i, j) <= *cap_);
  }
  // [i, j) or one that contains it.
  bool any(int s, int i, int j) const { return !cap_ || segments_.lasting(s, i, j) <= *cap_; }

 private:
  Segments& segments_;
  std::optional<int64_t> cap_;
};

Segmentation least_bottleneck(Segments& segments, int stages, std::optional<int64_t> cap) {
  const Allowed allowed(segments, cap);
  const auto weight = [&](int s, int i, int j) {
    return allowed.one(s, i, j) ? segments.price(i, j) : kNever;
  };
  const auto floor = [&](int s, int i, int j) {
    return allowed.any(s, i, j) ? segments.work(i, j) : kNever;
  };
  return divide(segments.size(), stages, weight, floor, larger);
}

Segmentation least_bytes(Segments& segments, int stages, std::optional<int64_t> cap, double most,
                     bool part_loss) {
  const Allowed allowed(segments, cap);
  const auto weight = [&](int s, int i, int j) {
    if (segments.price(i, j) > most || (!part_loss && segments.parts_loss(i, j))) return kNever;
    return allowed.one(s, i, j) ? segments.entering_bytes(i, j) : kNever;
  };
  const auto floor = [&](int s, int i, int j) {
    return segments.work(i, j) <= most && allowed.any(s, i, j) ? 0 : kNever;
  };
  return divide(segments.size(), stages, weight, floor, sum);
}

// Of segments that need no more than `most` without their slots.
Segmentation least_memory(Segments& segments, int stages, int64_t most) {
  const auto weight = [&](int s, int i, int j) {
    if (segments.parts_users(i, j) || segments.own_memory(s, i, j) > most) return kNever;
    return static_cast<double>(segments.memory(s, i, j));
  };
  const auto floor = [&](int s, int i, int j) {
    const int64_t lasting = segments.lasting(s, i, j);
    return lasting > most ? kNever : static_cast<double>(lasting);
  };
  return divide(segments.size(), stages, weight, floor, larger);
}

double lower_bound(const LayerFacts& facts) {
  double total = 0;
  double biggest = 0;
  for (const double price : facts.prices) {
    total += price;
    biggest = std::max(biggest, price);
  }
  return std::max(total / facts.stages(), biggest);
}

void check_stages(const Model& model, int workers) {
  if (workers <= model.nodes()) return;
  throw Error(ErrorCode::kInfeasible,
              format("a layer cut gives every worker at least one operator: {} workers, but {} has "
                     "{} operators; use --workers {} or fewer, or a cut that splits operators",
                     workers, model.name(), model.nodes(), model.nodes()));
}

struct Choice {
  Segmentation division;
  Segments* segments = nullptr;
  double bottleneck = 0;
};

// The largest of `figure` over the stages of a choice.
template <class Figure>
auto most_of(const Choice& choice, const Figure& figure) {
  decltype(figure(0, 0, 0)) most{};
  int begin = 0;
  for (size_t s = 0; s < choice.division.ends.size(); ++s) {
    const int end = choice.division.ends[s];
    most = std::max(most, figure(static_cast<int>(s), begin, end));
    begin = end;
  }
  return most;
}

// The least bottleneck, then the fewest bytes; the loss parted from its scores only where the
// bottleneck demands it.
std::optional<Choice> fastest(const LayerFacts& facts, std::vector<Segments>& all,
                              std::optional<int64_t> cap) {
  Choice best{{}, nullptr, kNever};
  for (Segments& segments : all)
    best.bottleneck =
        std::min(best.bottleneck, least_bottleneck(segments, facts.stages(), cap).value);
  if (best.bottleneck == kNever) return std::nullopt;
  for (const bool part_loss : {false, true}) {
    for (Segments& segments : all) {
      Segmentation division = least_bytes(segments, facts.stages(), cap, best.bottleneck, part_loss);
      if (division.value >= best.division.value) continue;
      best.division = std::move(division);
      best.segments = &segments;
    }
    if (best.segments != nullptr) break;
  }
  return best;
}

std::optional<Choice> smallest(const LayerFacts& facts, std::vector<Segments>& all, int64_t most) {
  Choice best;
  for (Segments& segments : all) {
    Segmentation division = least_memory(segments, facts.stages(), most);
    if (division.value >= best.division.value) continue;
    best.division = std::move(division);
    best.segments = &segments;
  }
  if (best.segments == nullptr) return std::nullopt;
  best.bottleneck =
      most_of(best, [&](int, int begin, int end) { return best.segments->price(begin, end); });
  return best;
}

Assignment assign(const LayerFacts& facts, const Choice& choice) {
  const std::vector<NodeId>& order = choice.segments->order();
  Assignment result;
  result.division.largest = facts.request.largest_micro_batch();
  result.division.nodes.resize(static_cast<size_t>(facts.model.nodes()));
  int begin = 0;
  for (int s = 0; s < facts.stages(); ++s) {
    const int end = choice.division.ends[static_cast<size_t>(s)];
    Stage stage{{order.begin() + begin, order.begin() + end}, {s}};
    std::sort(stage.nodes.begin(), stage.nodes.end());
    for (const NodeId node : stage.nodes)
      result.division.nodes[static_cast<size_t>(node)] = whole_division(facts.model, node, s);
    result.stages.push_back(std::move(stage));
    begin = end;
  }
  result.bottleneck = choice.bottleneck;
  result.bound = std::min(lower_bound(facts), choice.bottleneck);
  return result;
}

// A request with everything that its divisions are chosen by.
struct Search {
  Search(const Model& model, const PlanRequest& request, const Objective& objective)
      : facts(checked(model, request), request, objective), orders(topological_orders(model)) {
    all.reserve(orders.size());
    for (const std::vector<NodeId>& order : orders) all.emplace_back(facts, order);
  }

  static const Model& checked(const Model& model, const PlanRequest& request) {
    check_stages(model, request.workers);
    return model;
  }

  Choice without_cap() {
    auto choice = fastest(facts, all, std::nullopt);
    if (!choice)
      throw Error(
          ErrorCode::kInfeasible,
          format("operators that share a parameter live on one worker, which leaves fewer than "
                 "{} stages; use fewer --workers",
                 facts.stages()));
    return *std::move(choice);
  }

  LayerFacts facts;
  std::vector<std::vector<NodeId>> orders;
  std::vector<Segments> all;
};

}  // namespace

std::vector<Assignment> cut_layer(const Model& model, const PlanRequest& request,
                                  const Objective& objective) {
  Search search(model, request, objective);
  if (!request.memory) return {assign(search.facts, search.without_cap())};
  if (const auto best = fastest(search.facts, search.all, request.memory))
    return {assign(search.facts, *best)};
  std::vector<Assignment> candidates;
  const Choice free = search.without_cap();
  const auto own = [&](int s, int i, int j) { return free.segments->own_memory(s, i, j); };
  if (most_of(free, own) <= *request.memory) candidates.push_back(assign(search.facts, free));
  if (const auto least = smallest(search.facts, search.all, *request.memory))
    candidates.push_back(assign(search.facts, *least));
  return candidates;
}

std::vector<Assignment> cut_layer_without_cap(const Model& model, const PlanRequest& request,
                                              const Objective& objective) {
  Search search(model, request, objective);
  const Choice best = search.without_cap();
  // A low limit makes a short search; what is found within its limit is the least of all.
  for (int64_t most = request.memory.value_or(1);; most += most / 2 + 1)
    if (const auto choice = smallest(search.facts, search.all, most);
        choice && choice->division.value <= static_cast<double>(most))
      return {assign(search.facts, best), assign(search.facts, *choice)};
}

}  // namespace kerf::partitioner
