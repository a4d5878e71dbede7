#include "partitioner/route_index.h"

#include <algorithm>
#include <tuple>

namespace kerf::partitioner {
namespace {

auto sender_key(const Route* route) {
  return std::tuple(route->from, route->gradient, route->value);
}

auto receiver_key(const Route* route) {
  return std::tuple(route->to, route->gradient, route->value);
}

auto ends_key(const Route* route) {
  return std::tuple(route->value, route->gradient, route->leg, route->from, route->to);
}

template <class Key>
std::vector<const Route*> sorted(const std::vector<Route>& routes, const Key& key) {
  std::vector<const Route*> result;
  for (const Route& route : routes) result.push_back(&route);
  std::stable_sort(result.begin(), result.end(),
                   [&](const Route* a, const Route* b) { return key(a) < key(b); });
  return result;
}

template <class Key, class Wanted>
RouteIndex::Routes equal_to(const std::vector<const Route*>& all, const Key& key,
                            const Wanted& wanted) {
  const auto begin =
      std::lower_bound(all.begin(), all.end(), wanted,
                       [&](const Route* route, const Wanted& w) { return key(route) < w; });
  auto end = begin;
  while (end != all.end() && key(*end) == wanted) ++end;
  return {begin, end};
}

}  // namespace

RouteIndex::RouteIndex(const std::vector<Route>& routes)
    : routes_(routes),
      by_sender_(sorted(routes, sender_key)),
      by_receiver_(sorted(routes, receiver_key)),
      by_ends_(sorted(routes, ends_key)) {}

RouteIndex::Routes RouteIndex::sent(int part, bool gradient) const {
  const auto key = [](const Route* route) { return std::tuple(route->from, route->gradient); };
  Routes result = equal_to(by_sender_, key, std::tuple(part, gradient));
  std::sort(result.begin(), result.end());  // one list: addresses are in its order
  return result;
}

RouteIndex::Routes RouteIndex::sent(int part, bool gradient, ValueId value) const {
  return equal_to(by_sender_, sender_key, std::tuple(part, gradient, value));
}

RouteIndex::Routes RouteIndex::received(int part, bool gradient, ValueId value) const {
  return equal_to(by_receiver_, receiver_key, std::tuple(part, gradient, value));
}

const Route* RouteIndex::find(ValueId value, bool gradient, Leg leg, int from, int to) const {
  const Routes found = equal_to(by_ends_, ends_key, std::tuple(value, gradient, leg, from, to));
  return found.empty() ? nullptr : found.front();
}

}  // namespace kerf::partitioner
