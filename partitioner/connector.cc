#include "partitioner/connector.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "partitioner/sums.h"

namespace kerf::partitioner {
namespace {

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
