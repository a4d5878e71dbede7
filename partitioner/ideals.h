// Ideals: the sets of units that hold all that comes before any of their own. A stage is what one
// ideal has more than another, so that the chains of ideals are the divisions of a graph into
// stages whose graph is acyclic: all of them (Jeon et al. 2020, Tarnawski et al. 2020).
//
//        ┌─ b ─┐         {} ── a ──┬── ab ──┬── abc ── abcd
//    a ──┤     ├── d               └── ac ──┘
//        └─ c ─┘
//
// Ideals are numbered by size: 0 is empty, the last has every unit. An ideal is known by the units
// that may come next, which say what it lacks: the least of what it lacks. Plain values, immutable.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "partitioner/units.h"

namespace kerf::partitioner {

class Ideals {
 public:
  // A unit that may come next, and the ideal that has it, too.
  struct Step {
    int unit = -1;
    int ideal = -1;
  };

  // Empty if there are more than `most`, or so wide ones that they take longer. O(ideals x width x
  // degree) and a bit for each pair of units.
  static std::optional<Ideals> of(const Units& units, size_t most);

  int size() const { return static_cast<int>(from_.size()) - 1; }
  // By rank, ascending.
  std::span<const Step> steps(int ideal) const {
    const auto begin = from_[static_cast<size_t>(ideal)];
    return {steps_.data() + begin, from_[static_cast<size_t>(ideal) + 1] - begin};
  }
  // The units of an ideal, in an order that respects every edge.
  std::vector<int> units_in(int ideal) const;
  // Place of a unit in one topological order.
  int rank(int unit) const { return rank_[static_cast<size_t>(unit)]; }

 private:
  std::vector<int> rank_;  // by unit
  std::vector<Step> steps_;
  std::vector<size_t> from_;
  std::vector<Step> made_by_;  // ideal -> the last unit of it, and the ideal without that
};

}  // namespace kerf::partitioner
