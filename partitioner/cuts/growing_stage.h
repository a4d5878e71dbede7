// A stage that grows unit by unit, and what it costs: the prices of line.h, wherever its units
// stand. Everything is kept up to date, O(degree) a unit. Borrows the units; used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "partitioner/cuts/trees.h"
#include "partitioner/units.h"

namespace kerf::partitioner {

inline constexpr size_t kMostTypes = 4;  // of devices, in one search

struct StageTotals {
  std::array<double, kMostTypes> work = {};  // by device type
  double wire = 0;                           // time of what enters and leaves
  double bytes = 0;                          // of what enters
  double fixed = 0;                          // memory
  double per_micro_batch = 0;
  // What no larger stage from the same start has less of.
  double least_wire = 0;
  double least_bytes = 0;
};

class GrowingStage {
 public:
  explicit GrowingStage(const Units& units);

  // An empty stage, where these units are in earlier ones.
  void start(const std::vector<int>& before);
  // `totals` with one more unit; and takes it away again, the last one first.
  StageTotals add(int unit, StageTotals totals);
  void remove(int unit);
  // What is looked at as a unit is added.
  int degree(int unit) const { return degree_[static_cast<size_t>(unit)]; }

 private:
  enum class Place : uint8_t { kBefore, kStage, kAfter };
  std::span<const int> row(const std::vector<int>& all, const std::vector<int>& from,
                           int unit) const {
    const auto begin = static_cast<size_t>(from[static_cast<size_t>(unit)]);
    return {all.data() + begin, static_cast<size_t>(from[static_cast<size_t>(unit) + 1]) - begin};
  }
  // Adds what a value costs as things stand, or takes that away.
  void add_cost(int value, double sign, StageTotals& to) const;
  int64_t further_tensors(const UnitValue& value) const;

  const Units& units_;
  std::vector<int> reads_, reads_from_;  // values, by unit
  std::vector<int> made_, made_from_;
  std::vector<int> holds_, holds_from_;  // what is held, by unit
  std::vector<int> degree_;
  std::vector<Place> place_;     // of units
  std::vector<int> readers_in_;  // of values, in the stage
  std::vector<int> holders_in_;  // of what is held
};

}  // namespace kerf::partitioner
