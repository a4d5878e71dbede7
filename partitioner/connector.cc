#include "partitioner/connector.h"

#include <algorithm>
#include <map>

#include "partitioner/sources.h"

namespace kerf::partitioner {
namespace {

using ops::Box;

using BySender = std::map<int, std::vector<Piece>>;

BySender value_pieces(const Sources& sources, ValueId value, int part) {
  BySender pieces;
  for (const Source& source : sources.of_value(value, part))
    if (source.part != part) pieces[source.part].push_back({source.box, source.contributions});
  return pieces;
}

BySender gradient_pieces(const Sources& sources, ValueId value, int part) {
  BySender pieces;
  const auto all = sources.of_gradient(value, part);
  const bool one_maker = !all.empty() && std::all_of(all.begin(), all.end(), [&](const Source& s) {
    return s.part == all.front().part;
  });
  if (one_maker && all.front().part != part) {
    Piece sum{all.front().box};
    for (const Source& source : all) {
      sum.box = ops::hull(sum.box, source.box);
      sum.contributions.push_back(source.contributions.front());
    }
    pieces[all.front().part].push_back(std::move(sum));
    return pieces;
  }
  for (const Source& source : all)
    if (source.part != part) pieces[source.part].push_back({source.box, source.contributions});
  return pieces;
}

void add_routes(const Sources& sources, ValueId value, bool gradient, int to, BySender&& by_sender,
                std::vector<Route>& routes) {
  for (auto& [from, pieces] : by_sender) {
    for (Piece& piece : pieces) piece.box = ops::normalized(piece.box, sources.shape(value));
    routes.push_back(
        {static_cast<int>(routes.size()), value, gradient, from, to, std::move(pieces)});
  }
}

// What `part` has of the value (or of the contribution) from which it cuts the piece.
Box cut_from(const Sources& sources, const Route& route, const Piece& piece) {
  if (!route.gradient) return sources.held(route.value, route.from)->box;
  Box all = piece.box;
  for (const Contribution& contribution : piece.contributions)
    for (const int i : sources.computations_of(contribution.use.node))
      if (const Computation& made = sources.computations()[static_cast<size_t>(i)];
          made.part == route.from)
        all = ops::hull(all, made.inputs[static_cast<size_t>(contribution.use.input)]);
  return all;
}

}  // namespace

std::vector<Route> connect(const Model& model, const Division& division) {
  const Sources sources(model, division);
  std::vector<Route> routes;
  for (ValueId value = 0; value < model.values(); ++value) {
    const Role role = model.value(value).role;
    if (role != Role::kActivation && role != Role::kParameter) continue;
    for (const int part : sources.readers(value))
      add_routes(sources, value, false, part, value_pieces(sources, value, part), routes);
  }
  for (ValueId value = model.values() - 1; value >= 0; --value) {
    if (!sources.differentiable(value)) continue;
    std::vector<int> holders;
    for (const ops::Share& share : sources.shares(value)) holders.push_back(share.part);
    std::sort(holders.begin(), holders.end());
    for (const int part : holders)
      add_routes(sources, value, true, part, gradient_pieces(sources, value, part), routes);
  }
  return routes;
}

RouteKind kind_of(const Model& model, const Division& division, const Route& route) {
  const NodeId loss = model.loss();
  if (is_of_step(model, route)) return RouteKind::kWeight;
  if (route.gradient) {
    for (const Piece& piece : route.pieces)
      for (const Contribution& contribution : piece.contributions)
        if (contribution.use.node != loss) return RouteKind::kLayer;
    return RouteKind::kLoss;
  }
  for (const Use& use : model.uses(route.value))
    if (use.node != loss && division.nodes[static_cast<size_t>(use.node)].find(route.to) != nullptr)
      return RouteKind::kLayer;
  return RouteKind::kLoss;
}

bool is_of_step(const Model& model, const Route& route) {
  return model.value(route.value).role == Role::kParameter;
}

size_t message_bytes(const Model& model, const Route& route, int64_t samples) {
  const ops::ValueSpec& spec = model.value(route.value).spec;
  int64_t count = 0;
  for (const Piece& piece : route.pieces)
    count += ops::local_shape(piece.box, spec.shape, samples).elements();
  return static_cast<size_t>(count) * ops::size_of(spec.dtype);
}

std::string connector_words(const Sources& sources, const Route& route) {
  const ops::Shape shape = sources.shape(route.value);
  const bool sliced = std::any_of(route.pieces.begin(), route.pieces.end(), [&](const Piece& p) {
    return ops::normalized(cut_from(sources, route, p), shape) != p.box;
  });
  const auto met = route.gradient ? sources.of_gradient(route.value, route.to)
                                  : sources.of_value(route.value, route.to);
  const bool summed = std::any_of(met.begin(), met.end(), [&](const Source& a) {
    return std::any_of(met.begin(), met.end(), [&](const Source& b) {
      return &a != &b && !ops::intersect(a.box, b.box).empty();
    });
  });
  const bool joined = met.size() > 1;
  const bool sum_first =
      route.gradient && route.pieces.size() == 1 && route.pieces[0].contributions.size() > 1;
  return format("{}{}bridge{}", sum_first ? "sum -> " : "", sliced ? "slice -> " : "",
                !joined || sum_first ? ""
                : summed             ? " -> sum"
                                     : " -> concat");
}

}  // namespace kerf::partitioner
