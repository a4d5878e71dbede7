#include "partitioner/cuts/line.h"

#include <algorithm>

#include "partitioner/at.h"
#include "partitioner/cuts/trees.h"

namespace kerf::partitioner {
namespace {

// Sorts things by their position: a list in compressed rows.
template <class T>
void to_rows(int positions, const std::vector<std::pair<int, T>>& placed, std::vector<T>& all,
             std::vector<int>& from) {
  from.assign(at(positions) + 1, 0);
  for (const auto& [position, thing] : placed) ++from[at(position) + 1];
  for (size_t p = 1; p < from.size(); ++p) from[p] += from[p - 1];
  all.resize(placed.size());
  std::vector<int> next = from;
  for (const auto& [position, thing] : placed) all[at(next[at(position)]++)] = thing;
}

}  // namespace

Line::Line(const Units& units, std::vector<int> order)
    : units_(units), order_(std::move(order)), position_(order_.size()) {
  for (int p = 0; p < size(); ++p) position_[at(order_[at(p)])] = p;
  for (const std::vector<double>& work : units.work) {
    std::vector<double>& before = before_.emplace_back(1, 0.0);
    for (const int unit : order_) before.push_back(before.back() + work[at(unit)]);
  }
  find_values();
  find_returns();
  find_held();
  find_changes();
  find_close();
}

std::vector<int> Line::sorted_positions(const std::vector<int>& units) const {
  std::vector<int> result;
  for (const int unit : units) result.push_back(position_[at(unit)]);
  std::sort(result.begin(), result.end());
  return result;
}

void Line::find_values() {
  std::vector<std::pair<int, Read>> reads;
  std::vector<std::pair<int, int>> made;
  for (size_t v = 0; v < units_.values.size(); ++v) {
    const UnitValue& value = units_.values[v];
    const std::vector<int> readers = sorted_positions(value.readers);
    producer_.push_back(position_[at(value.producer)]);
    first_.push_back(readers.front());
    last_.push_back(readers.back());
    prices_grow_ = prices_grow_ && value.leave == 0 && producer_.back() < readers.front();
    made.emplace_back(producer_.back(), static_cast<int>(v));
    for (size_t r = 0; r < readers.size(); ++r)
      reads.push_back({readers[r],
                       {static_cast<int>(v), r == 0 ? -1 : readers[r - 1],
                        r + 1 == readers.size() ? size() : readers[r + 1]}});
  }
  to_rows(size(), reads, reads_, reads_from_);
  to_rows(size(), made, made_, made_from_);
}

// A segment pays once for what it returns of a value whose readers stand here as in the model; else
// each reader's is paid for.
void Line::find_returns() {
  std::vector<std::pair<int, int>> returns;
  for (size_t v = 0; v < units_.values.size(); ++v) {
    const UnitValue& value = units_.values[v];
    const bool in_order = std::is_sorted(value.returns.begin(), value.returns.end(),
                                         [&](const UnitTurn& a, const UnitTurn& b) {
                                           return position_[at(a.unit)] < position_[at(b.unit)];
                                         });
    enter_.push_back(in_order ? value.enter : value.enter - value.returning);
    bytes_.push_back(in_order ? value.bytes : value.bytes - value.returned_bytes);
    if (in_order) continue;
    for (const UnitTurn& turn : value.returns) {
      returns.emplace_back(position_[at(turn.unit)], static_cast<int>(returned_.size()));
      returned_.push_back(
          {static_cast<int>(v), turn.uses * value.returning, turn.uses * value.returned_bytes});
    }
  }
  to_rows(size(), returns, returns_, returns_from_);
}

void Line::find_held() {
  std::vector<std::pair<int, Read>> holds;
  for (size_t h = 0; h < units_.held.size(); ++h) {
    const std::vector<int> users = sorted_positions(units_.held[h].units);
    for (size_t r = 0; r < users.size(); ++r)
      holds.push_back({users[r],
                       {static_cast<int>(h), r == 0 ? -1 : users[r - 1],
                        r + 1 == users.size() ? size() : users[r + 1]}});
  }
  to_rows(size(), holds, holds_, holds_from_);
}

// [i, j) pays to receive a value if it reads it and does not make it, and to send it if it makes it
// and does not have all of its readers.
void Line::find_changes() {
  std::vector<std::pair<int, Change>> placed;
  const auto change = [&](int position, int first, int last, double price, double bytes) {
    if (first <= last && (price != 0 || bytes != 0))
      placed.push_back({position, {first, last, price, bytes}});
  };
  for (int p = 0; p < size(); ++p) {
    for (const Read& read : slice(reads_, reads_from_, p)) {
      const UnitValue& value = units_.values[at(read.item)];
      const int made = producer_[at(read.item)];
      const int first = made < p ? std::max(made, read.previous) + 1 : read.previous + 1;
      change(p, first, p, enter_[at(read.item)], bytes_[at(read.item)]);
      // Its last reader: those that begin after none of the earlier ones send nothing more.
      if (p == last_[at(read.item)] && made < p)
        change(p, 0, std::min(first_[at(read.item)], made), -value.leave, 0);
    }
    for (const int turn : slice(returns_, returns_from_, p)) {
      const Returned& its = returned_[at(turn)];
      change(p, producer_[at(its.value)] + 1, p, its.price, its.bytes);
    }
    for (const int v : slice(made_, made_from_, p)) {
      const UnitValue& value = units_.values[at(v)];
      int before = -1;  // the last reader before the producer
      for (const int unit : value.readers)
        if (position_[at(unit)] < p) before = std::max(before, position_[at(unit)]);
      change(p, 0, before, -enter_[at(v)], -bytes_[at(v)]);
      change(p, last_[at(v)] > p ? 0 : first_[at(v)] + 1, p, value.leave, 0);
    }
  }
  to_rows(size(), placed, changes_, changes_from_);
}

void Line::find_close() {
  std::vector<int> more(order_.size() + 2);  // pairs that a boundary parts, over those of the last
  for (const auto& [a, b] : units_.close) {
    const auto [first, last] = std::minmax(position_[at(a)], position_[at(b)]);
    ++more[at(first) + 1];
    --more[at(last) + 1];
  }
  int parted = 0;
  for (size_t boundary = 0; boundary <= order_.size(); ++boundary)
    parts_close_.push_back((parted += more[boundary]) > 0);
}

double Line::price(int type, int i, int j) const {
  double price = work(type, i, j);
  for (int p = i; p < j; ++p) {
    for (const Read& read : slice(reads_, reads_from_, p)) {
      const int made = producer_[at(read.item)];
      if (read.previous < i && (made < i || made >= j)) price += enter_[at(read.item)];
    }
    for (const int turn : slice(returns_, returns_from_, p))
      if (producer_[at(returned_[at(turn)].value)] < i) price += returned_[at(turn)].price;
    for (const int v : slice(made_, made_from_, p))
      if (first_[at(v)] < i || last_[at(v)] >= j) price += units_.values[at(v)].leave;
  }
  return price;
}

double Line::bytes(int i, int j) const {
  double bytes = 0;
  for (int p = i; p < j; ++p) {
    for (const Read& read : slice(reads_, reads_from_, p)) {
      const int made = producer_[at(read.item)];
      if (read.previous < i && (made < i || made >= j)) bytes += bytes_[at(read.item)];
    }
    for (const int turn : slice(returns_, returns_from_, p))
      if (producer_[at(returned_[at(turn)].value)] < i) bytes += returned_[at(turn)].bytes;
  }
  return bytes;
}

double Line::memory(int micro_batches, int i, int j) const {
  double bytes = 0;
  for (int p = i; p < j; ++p)
    for (const Read& hold : slice(holds_, holds_from_, p))
      if (hold.previous < i) {
        const UnitHeld& held = units_.held[at(hold.item)];
        bytes += held.fixed + micro_batches * held.per_micro_batch;
      }
  return bytes;
}

std::vector<int> Line::ends_by_price(int type, double limit) const {
  std::vector<double> own;  // of a unit, and of values at the next unit that reads them
  for (const int unit : order_) own.push_back(units_.work[at(type)][at(unit)]);
  SumTree sums(own);
  std::vector<int> ends;
  for (int i = 0; i < size(); ++i) {
    ends.push_back(std::max(i, sums.furthest(limit)));
    sums.clear(i);
    for (const Read& read : slice(reads_, reads_from_, i))
      if (read.next < size()) sums.add(read.next, enter_[at(read.item)]);
    for (const int v : slice(made_, made_from_, i)) {
      sums.add(first_[at(v)], enter_[at(v)]);
      if (enter_[at(v)] == units_.values[at(v)].enter) continue;
      for (const auto& [unit, uses] : units_.values[at(v)].returns)
        if (position_[at(unit)] > i)
          sums.add(position_[at(unit)], uses * units_.values[at(v)].returning);
    }
  }
  return ends;
}

// A segment that begins later ends no earlier: it holds less. [start, end) holds what is `within`,
// and the unit at its end would add what is `next`.
std::vector<int> Line::ends_by_memory(int micro_batches, double limit) const {
  const auto bytes = [&](const Read& hold) {
    const UnitHeld& held = units_.held[at(hold.item)];
    return held.fixed + micro_batches * held.per_micro_batch;
  };
  // What the unit at `end` would add to a segment from `start`.
  const auto added = [&](int start, int end) {
    double more = 0;
    if (end == size()) return more;
    for (const Read& hold : slice(holds_, holds_from_, end))
      if (hold.previous < start) more += bytes(hold);
    return more;
  };
  std::vector<int> ends;
  double within = 0;  // never above the limit, and so no less exact than that is
  double next = added(0, 0);
  for (int start = 0, end = 0; start < size(); ++start) {
    if (end < start) next = added(start, ++end);
    if (end == start) within = 0;
    for (; end < size() && within + next <= limit; next = added(start, ++end)) within += next;
    ends.push_back(end);
    if (end == start) continue;
    for (const Read& hold : slice(holds_, holds_from_, start)) {
      if (hold.next < end) continue;
      within -= bytes(hold);
      if (hold.next == end) next += bytes(hold);
    }
  }
  return ends;
}

}  // namespace kerf::partitioner
