#include "partitioner/connector.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "partitioner/sums.h"

namespace kerf::partitioner {
namespace {

using ops::Box;

// The routes by which the terms of sums arrive, by receiver, leg and sender.
void add_routes(const Sources& sources, const std::vector<Sum>& sums, ValueId value, bool gradient,
                std::vector<Route>& routes) {
  const bool of_step = sources.model().value(value).role == Role::kParameter;
  std::map<std::tuple<int, Leg, int>, std::vector<Piece>> arriving;
  for (const Sum& sum : sums)
    for (const Source& term : sum.terms) {
      if (term.part == sum.part) continue;
      KERF_CHECK(of_step || sources.one_replica(term.part, sum.part),
                 "{} goes from part {} to {}, which is of another replica",
                 sources.model().value(value).name, term.part, sum.part);
      std::vector<Piece>& pieces = arriving[{sum.part, term.leg, term.part}];
      Piece piece{term.box, term.contributions};
      // Two sums of one part may read one piece.
      if (!gradient || std::find(pieces.begin(), pieces.end(), piece) == pieces.end())
        pieces.push_back(std::move(piece));
    }
  for (auto& [ends, pieces] : arriving) {
    const auto& [to, leg, from] = ends;
    routes.push_back(
        {static_cast<int>(routes.size()), value, gradient, from, to, std::move(pieces), leg});
  }
}

// The sum that the sender of a piece cuts it from; null if it is no sum.
const Sum* sum_of(const Sums& sums, const Route& route, const Piece& piece) {
  const bool gathered = route.leg == Leg::kAllGather;
  if (!gathered && piece.contributions.size() < 2) return nullptr;
  const auto kind = gathered ? Sum::Kind::kSlice : Sum::Kind::kRunning;
  for (const Sum& sum : sums.of(route.value, route.gradient))
    if (sum.part == route.from && sum.kind == kind && sum.box.contains(piece.box) &&
        (gathered || sum.contributions() == piece.contributions))
      return &sum;
  return nullptr;
}

// What `part` has of the value (or of the contribution) from which it cuts the piece.
Box cut_from(const Sums& sums, const Route& route, const Piece& piece) {
  const Sources& sources = sums.sources();
  if (const Sum* sum = sum_of(sums, route, piece)) return sum->box;
  if (!route.gradient) return sources.held(route.value, route.from)->box;
  Box all = piece.box;
  for (const Contribution& contribution : piece.contributions)
    for (const int i : sources.computations_of(contribution.use.node))
      if (const Computation& made = sources.computations()[static_cast<size_t>(i)];
          made.part == route.from)
        all = ops::hull(all, made.inputs[static_cast<size_t>(contribution.use.input)]);
  return all;
}

// What becomes of the pieces where they arrive: " -> sum", " -> concat", or nothing.
std::string end_words(const Sums& sums, const Route& route) {
  bool joined = false;
  for (const Sum& sum : sums.of(route.value, route.gradient)) {
    if (sum.part != route.to) continue;
    for (const Source& term : sum.terms) {
      if (term.part != route.from || term.leg != route.leg) continue;
      joined = joined || sum.terms.size() > 1;
      for (const Source& other : sum.terms)
        if (&other != &term && !ops::intersect(other.box, term.box).empty()) return " -> sum";
    }
  }
  return joined ? " -> concat" : "";
}

// Whether the sender sums up what it makes alone.
bool sums_own(const Sums& sums, const Route& route) {
  return std::any_of(route.pieces.begin(), route.pieces.end(), [&](const Piece& piece) {
    if (is_of_step(sums.sources().model(), route)) return piece.contributions.size() > 1;
    const Sum* sum = sum_of(sums, route, piece);
    return sum != nullptr && std::all_of(sum->terms.begin(), sum->terms.end(),
                                         [&](const auto& t) { return t.part == route.from; });
  });
}

}  // namespace

std::vector<Route> connect(const Model& model, const Division& division,
                           const std::vector<int>& stage_of) {
  return connect(Sources(model, division, stage_of));
}

std::vector<Route> connect(const Sources& sources) { return connect(Sums(sources)); }

std::vector<Route> connect(const Sums& sums) {
  const Sources& sources = sums.sources();
  const int values = sources.model().values();
  std::vector<Route> routes;
  for (ValueId value = 0; value < values; ++value)
    add_routes(sources, sums.of(value, false), value, false, routes);
  for (ValueId value = values - 1; value >= 0; --value)
    add_routes(sources, sums.of(value, true), value, true, routes);
  return routes;
}

RouteKind kind_of(const Model& model, const Division& division, const Route& route) {
  const NodeId loss = model.loss();
  if (route.value == kStepVector) return RouteKind::kStep;
  if (is_of_step(model, route)) return RouteKind::kWeight;
  if (route.gradient) {
    for (const Piece& piece : route.pieces)
      for (const Contribution& contribution : piece.contributions)
        if (contribution.use.node != loss) return RouteKind::kLayer;
    return RouteKind::kLoss;
  }
  // A summand goes where it is summed up, whoever reads the sum.
  const bool any = route.leg == Leg::kReduceScatter;
  for (const Use& use : model.uses(route.value))
    if (use.node != loss &&
        (any || division.nodes[static_cast<size_t>(use.node)].find(route.to) != nullptr))
      return RouteKind::kLayer;
  return RouteKind::kLoss;
}

bool is_of_step(const Model& model, const Route& route) {
  return route.value == kStepVector || model.value(route.value).role == Role::kParameter;
}

const std::string& value_name(const Model& model, const Route& route) {
  static const std::string kName = "the step vector";
  return route.value == kStepVector ? kName : model.value(route.value).name;
}

std::string name_of(const Model& model, const Route& route) {
  const bool gradient = route.gradient && route.value != kStepVector;
  return (gradient ? "the gradient of " : "") + value_name(model, route);
}

size_t message_bytes(const Model& model, const Route& route, int64_t samples) {
  int64_t count = 0;
  if (route.value == kStepVector) {
    for (const Piece& piece : route.pieces) count += piece.box.axes.at(0).size(0);
    return static_cast<size_t>(count) * sizeof(double);
  }
  const ops::ValueSpec& spec = model.value(route.value).spec;
  for (const Piece& piece : route.pieces)
    count += ops::local_shape(piece.box, spec.shape, samples).elements();
  return static_cast<size_t>(count) * ops::size_of(spec.dtype);
}

std::string connector_words(const Sums& sums, const Route& route) {
  if (route.value == kStepVector) return {};
  const ops::Shape shape = sums.sources().shape(route.value);
  const bool sliced = std::any_of(route.pieces.begin(), route.pieces.end(), [&](const Piece& p) {
    return ops::normalized(cut_from(sums, route, p), shape) != p.box;
  });
  return format("{}{}bridge{}{}", route.gradient && sums_own(sums, route) ? "sum -> " : "",
                sliced ? "slice -> " : "", end_words(sums, route),
                route.leg == Leg::kDirect ? "" : format(" ({})", to_string(route.leg)));
}

Leg parse_leg(const std::string& name, const std::string& where) {
  for (const Leg leg : {Leg::kDirect, Leg::kReduceScatter, Leg::kAllGather})
    if (name == to_string(leg)) return leg;
  throw Error(ErrorCode::kUsage,
              format("\"{}\" is no leg; there are direct, reduce-scatter and all-gather", name),
              where);
}

std::string_view to_string(Leg leg) {
  switch (leg) {
    case Leg::kDirect:
      return "direct";
    case Leg::kReduceScatter:
      return "reduce-scatter";
    case Leg::kAllGather:
      return "all-gather";
  }
  return "";
}

}  // namespace kerf::partitioner
