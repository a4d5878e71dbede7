#include "schedmp/variables/dependency_filter.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

// Correlations of columns whose length is 1 but for rounding, of single precision or better.
constexpr double kRounding = 1e-3;

const DependencyOptions& checked(const DependencyOptions& options) {
  if (!(options.threshold >= 0 && options.threshold < 1))
    throw Error(ErrorCode::kUsage, format("a threshold of {} for correlations: take one from 0 up "
                                          "to 1; 0.2 to 0.3 is a good one",
                                          options.threshold));
  if (options.most_known < 1 || options.most_known > int64_t{1} << 20)
    throw Error(ErrorCode::kUsage, format("correlations of {} variables: take 1 to 2^20, which are "
                                          "kept in as many bits as there are pairs",
                                          options.most_known));
  if (options.patience < 0)
    throw Error(ErrorCode::kUsage,
                format("a patience of {} sets: take 0 or more", options.patience));
  return options;
}

void check(double correlation, int64_t row, int64_t column) {
  const bool is_one = std::abs(correlation) <= 1 + kRounding;
  const bool fits = row != column || correlation == 0 || std::abs(correlation - 1) <= kRounding;
  if (!is_one || !fits)
    throw Error(ErrorCode::kUsage,
                format("the correlation of variables {} and {} is {}: it is of columns that are "
                       "divided by their lengths",
                       row, column, correlation));
}

}  // namespace

DependencyFilter::DependencyFilter(const DependencyOptions& options)
    : options_(checked(options)),
      conflicts_(static_cast<size_t>(options.most_known)),
      slots_(conflicts_.slots()),
      busy_(conflicts_.slots()) {}

void DependencyFilter::queue(std::span<const int64_t> candidates) {
  for (const int64_t variable : candidates) waiting_.push_back({.variable = variable});
}

std::optional<size_t> DependencyFilter::known(int64_t variable) const {
  const auto found = slot_of_.find(variable);
  if (found == slot_of_.end() || slots_[found->second].state != State::kKnown) return std::nullopt;
  return found->second;
}

int64_t DependencyFilter::waiting_known() const {
  return std::count_if(waiting_.begin(), waiting_.end(),
                       [&](const Candidate& each) { return known(each.variable).has_value(); });
}

// ---- sets

std::vector<int64_t> DependencyFilter::accept(int64_t id, int64_t most) {
  KERF_CHECK(!in_flight_.contains(id), "set {} is in flight already", id);
  std::vector<int64_t> set;
  std::vector<size_t> slots;
  std::deque<Candidate> left;
  std::vector<size_t> passed_over;  // places in `left`
  SlotSet blocking = busy_;         // in flight, of this set, and elders
  for (const Candidate& candidate : waiting_) {
    const bool full = std::ssize(set) >= most;
    const std::optional<size_t> slot = known(candidate.variable);
    if (!full && slot && !conflicts_.meets(*slot, blocking)) {
      blocking.add(*slot);
      slots.push_back(*slot);
      set.push_back(candidate.variable);
      continue;
    }
    if (slot && candidate.passed_over >= options_.patience) blocking.add(*slot);
    if (slot && !full) passed_over.push_back(left.size());
    left.push_back(candidate);
  }
  waiting_ = std::move(left);
  if (set.empty()) return set;
  for (const size_t place : passed_over) ++waiting_[place].passed_over;
  ++sets_;
  for (const size_t slot : slots) {
    busy_.add(slot);
    slots_[slot].used = sets_;
  }
  in_flight_[id] = std::move(slots);
  return set;
}

void DependencyFilter::retire(int64_t id) {
  const auto found = in_flight_.find(id);
  KERF_CHECK(found != in_flight_.end(), "set {} retires, but it was not in flight", id);
  for (const size_t slot : found->second) busy_.remove(slot);
  in_flight_.erase(found);
}

// ---- correlations

// One that nobody had, or that of the variable which was in flight longest ago: not one of those
// that are, that wait, or that are asked for.
std::optional<size_t> DependencyFilter::free_slot() {
  if (used_slots_ < slots_.size()) return used_slots_++;
  std::set<size_t> kept;
  for (const Candidate& each : waiting_)
    if (const auto found = slot_of_.find(each.variable); found != slot_of_.end())
      kept.insert(found->second);
  std::optional<size_t> oldest;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const bool idle =
        slots_[slot].state == State::kKnown && !busy_.has(slot) && !kept.contains(slot);
    if (idle && (!oldest || slots_[slot].used < slots_[*oldest].used)) oldest = slot;
  }
  if (oldest) forget(*oldest);
  return oldest;
}

void DependencyFilter::forget(size_t slot) {
  slot_of_.erase(slots_[slot].variable);
  slots_[slot] = {};
  conflicts_.clear(slot);
}

// A row is asked for with all that was asked for before, and with the rows of the same block: of
// two variables that are known, the one that was asked for later has brought the pair.
WantedBlock DependencyFilter::wanted(int64_t most_correlations) {
  KERF_CHECK(most_correlations >= 1, "a block of {} correlations", most_correlations);
  WantedBlock block{++blocks_, {}, {}};
  int64_t columns = std::ssize(slot_of_);
  for (const Candidate& candidate : waiting_) {
    if (has_slot(candidate.variable)) continue;
    const int64_t rows = std::ssize(block.rows) + 1;
    if (rows > 1 && rows * (columns + 1) > most_correlations) break;
    const std::optional<size_t> slot = free_slot();
    if (!slot) break;
    slots_[*slot] = {State::kAsked, candidate.variable, block.id, 0};
    slot_of_[candidate.variable] = *slot;
    columns = std::ssize(slot_of_);
    block.rows.push_back(candidate.variable);
  }
  if (block.empty()) return block;
  for (size_t slot = 0; slot < used_slots_; ++slot)
    if (slots_[slot].state != State::kFree) block.columns.push_back(slots_[slot].variable);
  return block;
}

void DependencyFilter::learn(const WantedBlock& asked, std::span<const double> correlations) {
  KERF_CHECK(correlations.size() == asked.rows.size() * asked.columns.size(),
             "a block of {} x {} has {} correlations", asked.rows.size(), asked.columns.size(),
             correlations.size());
  // A column may have been forgotten since, or forgotten and asked for again: with these rows, too.
  std::vector<std::optional<size_t>> others;
  for (const int64_t column : asked.columns) {
    const auto found = slot_of_.find(column);
    const bool counts = found != slot_of_.end() && was_asked_by(asked.id, found->second);
    others.push_back(counts ? std::optional(found->second) : std::nullopt);
  }
  auto next = correlations.begin();
  for (const int64_t row : asked.rows) {
    const auto found = slot_of_.find(row);
    KERF_CHECK(found != slot_of_.end() && slots_[found->second].asked == asked.id &&
                   slots_[found->second].state == State::kAsked,
               "block {} was not asked for, or is answered twice", asked.id);
    for (size_t i = 0; i < others.size(); ++i) {
      const double correlation = *next++;
      check(correlation, row, asked.columns[i]);
      if (others[i] && std::abs(correlation) > options_.threshold)
        conflicts_.set(found->second, *others[i]);
    }
    slots_[found->second].state = State::kKnown;
  }
}

}  // namespace kerf::schedmp
