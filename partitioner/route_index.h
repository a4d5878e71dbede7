// The routes of a plan by what is asked of them: which ones a part sends or gets, of all values or
// of one, and the one between two parts.
//
// Built once per list of routes, which it borrows; immutable, so many threads may read it. Every
// answer is in the order of the routes and costs O(log routes + its length).
#pragma once

#include <vector>

#include "partitioner/connector.h"

namespace kerf::partitioner {

class RouteIndex {
 public:
  using Routes = std::vector<const Route*>;

  explicit RouteIndex(const std::vector<Route>& routes);

  const std::vector<Route>& routes() const { return routes_; }
  // Of values or of gradients.
  Routes sent(int part, bool gradient) const;
  Routes sent(int part, bool gradient, ValueId value) const;
  Routes received(int part, bool gradient, ValueId value) const;
  // Null if there is none.
  const Route* find(ValueId value, bool gradient, Leg leg, int from, int to) const;

 private:
  const std::vector<Route>& routes_;
  std::vector<const Route*> by_sender_;    // part, direction, value, place in the list
  std::vector<const Route*> by_receiver_;  // the same
  std::vector<const Route*> by_ends_;      // value, direction, leg, sender, receiver
};

}  // namespace kerf::partitioner
