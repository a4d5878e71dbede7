// Steering: what a person says of a cut beside which one it is. Patterns are of names of nodes, as
// "layer1.*" (ops/name_pattern.h).
//
//   pattern             free: how the features of every one-to-all operator go to workers: "even",
//                       "block-cyclic:8" (blocks of so many units in turn), "proportional" (to the
//                       workers' speeds, capacities.h)
//   ways                free: an operator's own way to divide: "batch", "feature", "whole" (on
//                       worker 0) or "whole:2"; of several that fit a node the last holds
//   others              free: the way of the one-to-all operators that no way names
//   places              layer: the worker of a node; of several that fit the last holds
//   together, apart     layer: nodes that share a stage; nodes of which no two lists' members share
//                       a worker
//   stages_per_worker   layer: how many, on whichever worker (shared_workers.h)
//   slack               layer: bytes are saved up to (1 + slack) times the least bottleneck;
//                       automatic: up to so many times the least seconds of a step
//   automatic           the cut is the one that was chosen among all, and so is a pattern
//   without_pairs       feature, hybrid, automatic: no product was to be divided by its inputs
//   by_shares           free: a file of shares said who computes what; the plan has the shares
//
// Plans keep it. Plain values; pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/json.h"

namespace kerf::partitioner {

class Model;

// A way to divide, or a worker, for the nodes that fit a pattern.
struct WayRule {
  std::string pattern;
  std::string way;
  bool operator==(const WayRule&) const = default;
};
struct PlaceRule {
  std::string pattern;
  int worker = 0;
  std::string line = {};  // "places.txt:3", where a file has it
  // At what errors of it are told.
  std::string where() const { return line.empty() ? "--place" : "--place " + line; }
  bool operator==(const PlaceRule& other) const {
    return pattern == other.pattern && worker == other.worker;
  }
};

struct Steering {
  std::string pattern = {};
  std::vector<WayRule> ways = {};
  std::string others = {};
  std::vector<PlaceRule> places = {};
  std::vector<std::vector<std::string>> together = {};
  std::vector<std::vector<std::string>> apart = {};
  int stages_per_worker = 1;
  double slack = 0;
  bool automatic = false;
  bool without_pairs = false;
  bool by_shares = false;

  bool empty() const { return *this == Steering{}; }
  bool operator==(const Steering&) const = default;
};

// Of flags. Throws Error{kUsage} that says what is wanted.
WayRule parse_way(const std::string& text);                        // "conv*=batch"
std::vector<std::string> parse_patterns(const std::string& text);  // "a,b": two at least
std::string parse_pattern(const std::string& text);                // "block-cyclic:8"
// The worker of "whole" and "whole:2"; -1 of another way.
int worker_of_whole(const std::string& way);
// Units of a block of "block-cyclic:8"; 0 of another pattern. And that of so many units.
int64_t block_of(const std::string& pattern);
std::string block_cyclic(int64_t units);

// Lines of a pattern and a worker, "#" begins a comment:
//
//   encoder*   0
//   decoder*   1        # the rest is planned
//
// Throws Error{kUsage} that names origin and line.
std::vector<PlaceRule> read_places(const std::string& text, const std::string& origin);

// As a plan keeps it; what says nothing is left out.
Json steering_json(const Steering& steering);
Steering read_steering(const Json& json, const std::string& where);

// Nodes that fit the pattern, ascending. Throws Error{kUsage} at `flag` where there is none, with
// the names that are nearest.
std::vector<int> nodes_that_fit(const Model& model, const std::string& pattern,
                                const std::string& flag);

// Pairs of nodes that share a stage, each pair in both orders. Throws Error{kUsage} at --together.
std::vector<std::pair<int, int>> nodes_together(const Model& model, const Steering& steering);

}  // namespace kerf::partitioner
