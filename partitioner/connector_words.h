// What connectors routes stand for, in words, where there are many of them: what the routes of a
// value, and those to one part, have in common is found once. Best asked in the order of a plan's
// routes. Borrows its Sums; used by one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/sums.h"

namespace kerf::partitioner {

class ConnectorWords {
 public:
  explicit ConnectorWords(const Sums& sums) : sums_(sums) {}

  // As connector_words() (connector.h).
  std::string of(const Route& route);

 private:
  // What becomes of the pieces of one sender.
  struct Arrival {
    bool joined = false;  // they meet others
    bool added = false;   // and have elements in common
  };

  void look_at(const Route& route);
  void find_arrivals(int part);
  const std::vector<const Sum*>& sums_on(int part) const;
  const std::vector<int>& computations_of(NodeId node, int part);
  const Sum* sum_of(const Route& route, const Piece& piece) const;
  ops::Box cut_from(const Route& route, const Piece& piece);
  bool sums_own(const Route& route) const;

  const Sums& sums_;
  const std::vector<Sum>* of_value_ = nullptr;              // that were asked about last
  std::map<int, std::vector<const Sum*>> sums_on_;          // those, by part
  std::map<NodeId, std::map<int, std::vector<int>>> made_;  // of its readers: by part
  int to_ = -1;                                             // likewise
  std::map<std::pair<int, Leg>, Arrival> arrivals_;         // there, by sender and leg
};

}  // namespace kerf::partitioner
