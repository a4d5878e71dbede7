#include "partitioner/connector_words.h"

#include <algorithm>
#include <utility>

#include "partitioner/disjoint_boxes.h"

namespace kerf::partitioner {
namespace {

bool meets_another(const std::vector<Source>& terms, const Source& term) {
  return std::ranges::any_of(terms, [&](const Source& other) {
    return &other != &term && !ops::intersect(other.box, term.box).empty();
  });
}

}  // namespace

const std::vector<const Sum*>& ConnectorWords::sums_on(int part) const {
  static const std::vector<const Sum*> kNone;
  const auto found = sums_on_.find(part);
  return found == sums_on_.end() ? kNone : found->second;
}

void ConnectorWords::look_at(const Route& route) {
  const std::vector<Sum>* of_value = &sums_.of(route.value, route.gradient);
  if (of_value != of_value_) {
    of_value_ = of_value;
    to_ = -1;
    sums_on_.clear();
    made_.clear();
    for (const Sum& sum : *of_value) sums_on_[sum.part].push_back(&sum);
  }
  if (route.to != std::exchange(to_, route.to)) find_arrivals(route.to);
}

void ConnectorWords::find_arrivals(int part) {
  arrivals_.clear();
  for (const Sum* sum : sums_on(part)) {
    const bool apart = boxes_follow_one_another(sum->terms);
    for (const Source& term : sum->terms) {
      Arrival& arrival = arrivals_[{term.part, term.leg}];
      arrival.joined = arrival.joined || sum->terms.size() > 1;
      arrival.added = arrival.added || (!apart && meets_another(sum->terms, term));
    }
  }
}

const std::vector<int>& ConnectorWords::computations_of(NodeId node, int part) {
  const Sources& sources = sums_.sources();
  const auto [of_node, fresh] = made_.try_emplace(node);
  if (fresh)
    for (const int i : sources.computations_of(node))
      of_node->second[sources.computations()[static_cast<size_t>(i)].part].push_back(i);
  return of_node->second[part];
}

// The sum that the sender of a piece cuts it from; null if it is no sum.
const Sum* ConnectorWords::sum_of(const Route& route, const Piece& piece) const {
  const bool gathered = route.leg == Leg::kAllGather;
  if (!gathered && piece.contributions.size() < 2) return nullptr;
  const auto kind = gathered ? Sum::Kind::kSlice : Sum::Kind::kRunning;
  for (const Sum* sum : sums_on(route.from))
    if (sum->kind == kind && sum->box.contains(piece.box) &&
        (gathered || sum->contributions() == piece.contributions))
      return sum;
  return nullptr;
}

// What `part` has of the value (or of the contribution) from which it cuts the piece.
ops::Box ConnectorWords::cut_from(const Route& route, const Piece& piece) {
  const Sources& sources = sums_.sources();
  if (const Sum* sum = sum_of(route, piece)) return sum->box;
  if (!route.gradient) return sources.held(route.value, route.from)->box;
  ops::Box all = piece.box;
  for (const Contribution& contribution : piece.contributions)
    for (const int i : computations_of(contribution.use.node, route.from))
      all = ops::hull(all, sources.computations()[static_cast<size_t>(i)]
                               .inputs[static_cast<size_t>(contribution.use.input)]);
  return all;
}

// Whether the sender sums up what it makes alone.
bool ConnectorWords::sums_own(const Route& route) const {
  return std::ranges::any_of(route.pieces, [&](const Piece& piece) {
    if (is_of_step(sums_.sources().model(), route)) return piece.contributions.size() > 1;
    const Sum* sum = sum_of(route, piece);
    return sum != nullptr && std::ranges::all_of(sum->terms, [&](const Source& term) {
             return term.part == route.from;
           });
  });
}

std::string ConnectorWords::of(const Route& route) {
  if (route.value == kStepVector) return {};
  look_at(route);
  const ops::Shape shape = sums_.sources().shape(route.value);
  const bool sliced = std::ranges::any_of(route.pieces, [&](const Piece& piece) {
    return ops::normalized(cut_from(route, piece), shape) != piece.box;
  });
  const auto found = arrivals_.find({route.from, route.leg});
  const Arrival arrival = found == arrivals_.end() ? Arrival() : found->second;
  return format("{}{}bridge{}{}", route.gradient && sums_own(route) ? "sum -> " : "",
                sliced ? "slice -> " : "",
                arrival.added    ? " -> sum"
                : arrival.joined ? " -> concat"
                                 : "",
                route.leg == Leg::kDirect ? "" : format(" ({})", to_string(route.leg)));
}

std::string connector_words(const Sums& sums, const Route& route) {
  return ConnectorWords(sums).of(route);
}

}  // namespace kerf::partitioner
