#include "partitioner/cuts/growing_stage.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "partitioner/at.h"

namespace kerf::partitioner {
namespace {

// unit -> the numbers of the things that have it: compressed rows.
template <class Things, class UnitsOf>
void index_by_unit(int units, const Things& things, const UnitsOf& units_of_thing,
                   std::vector<int>& all, std::vector<int>& from) {
  from.assign(at(units) + 1, 0);
  for (const auto& thing : things)
    for (const int unit : units_of_thing(thing)) ++from[at(unit) + 1];
  for (size_t u = 1; u < from.size(); ++u) from[u] += from[u - 1];
  all.resize(at(from.back()));
  std::vector<int> next = from;
  for (size_t i = 0; i < things.size(); ++i)
    for (const int unit : units_of_thing(things[i]))
      all[at(next[at(unit)]++)] = static_cast<int>(i);
}

}  // namespace

GrowingStage::GrowingStage(const Units& units)
    : units_(units),
      place_(at(units.size()), Place::kAfter),
      readers_in_(units.values.size()),
      holders_in_(units.held.size()) {
  index_by_unit(
      units.size(), units.values, [](const UnitValue& v) -> auto& { return v.readers; }, reads_,
      reads_from_);
  index_by_unit(
      units.size(), units.values, [](const UnitValue& v) { return std::array{v.producer}; }, made_,
      made_from_);
  index_by_unit(
      units.size(), units.held, [](const UnitHeld& h) -> auto& { return h.units; }, holds_,
      holds_from_);
  for (int unit = 0; unit < units.size(); ++unit) {
    size_t degree = row(holds_, holds_from_, unit).size();
    for (const auto values : {row(reads_, reads_from_, unit), row(made_, made_from_, unit)})
      for (const int value : values) degree += 1 + units.values[at(value)].returns.size();
    degree_.push_back(static_cast<int>(degree));
  }
}

void GrowingStage::start(const std::vector<int>& before) {
  std::fill(place_.begin(), place_.end(), Place::kAfter);
  for (const int unit : before) place_[at(unit)] = Place::kBefore;
  std::fill(readers_in_.begin(), readers_in_.end(), 0);
  std::fill(holders_in_.begin(), holders_in_.end(), 0);
}

// A stage returns one sum of what it adds before anything of an earlier stage, and all that it adds
// later one by one: the summands are added in the reverse of `returns`, and a sum on its way goes
// towards the maker only. How many tensors there are beside the first.
int64_t GrowingStage::further_tensors(const UnitValue& value) const {
  bool earlier = false;  // has added something
  bool sums = false;
  int64_t tensors = 0;
  for (auto turn = value.returns.rbegin(); turn != value.returns.rend(); ++turn) {
    const Place place = place_[at(turn->unit)];
    if (place == Place::kBefore || turn->unit == value.producer) earlier = true;
    if (place != Place::kStage) continue;
    if (earlier)
      tensors += turn->uses;
    else if (!std::exchange(sums, true))
      ++tensors;
  }
  return std::max<int64_t>(tensors - 1, 0);
}

void GrowingStage::add_cost(int id, double sign, StageTotals& to) const {
  const UnitValue& value = units_.values[at(id)];
  const int readers = readers_in_[at(id)];
  const Place made = place_[at(value.producer)];
  if (made == Place::kStage) {
    if (at(readers) < value.readers.size()) to.wire += sign * value.leave;
    return;
  }
  if (readers == 0) return;
  double wire = value.enter;
  double bytes = value.bytes;
  if (made == Place::kBefore) {
    to.least_wire += sign * wire;
    to.least_bytes += sign * bytes;
  }
  if (value.returns.size() >= 2) {
    const auto further = static_cast<double>(further_tensors(value));
    wire += further * value.returning;
    bytes += further * value.returned_bytes;
  }
  to.wire += sign * wire;
  to.bytes += sign * bytes;
}

StageTotals GrowingStage::add(int unit, StageTotals totals) {
  const auto reads = row(reads_, reads_from_, unit);
  const auto made = row(made_, made_from_, unit);
  const auto add_costs = [&](double sign) {
    for (const std::span<const int> values : {reads, made})
      for (const int value : values) add_cost(value, sign, totals);
  };
  add_costs(-1);
  place_[at(unit)] = Place::kStage;
  for (const int value : reads) ++readers_in_[at(value)];
  add_costs(1);
  for (size_t type = 0; type < units_.work.size(); ++type)
    totals.work[type] += units_.work[type][at(unit)];
  for (const int id : row(holds_, holds_from_, unit))
    if (holders_in_[at(id)]++ == 0) {
      totals.fixed += units_.held[at(id)].fixed;
      totals.per_micro_batch += units_.held[at(id)].per_micro_batch;
    }
  return totals;
}

void GrowingStage::remove(int unit) {
  place_[at(unit)] = Place::kAfter;
  for (const int value : row(reads_, reads_from_, unit)) --readers_in_[at(value)];
  for (const int id : row(holds_, holds_from_, unit)) --holders_in_[at(id)];
}

}  // namespace kerf::partitioner
