// The dependency filter of STRADS (Lee et al., NIPS 2014; Kim et al., EuroSys 2016), over every set
// that is in flight: variables that are updated side by side, from values that do not have each
// other's updates, must be nearly independent, or parallel coordinate descent diverges (Bradley et
// al., ICML 2011). Of all variables in flight, no two have a |correlation| above the threshold.
//
//   queue(candidates)   wait in a queue: front  7 3 9 4
//   accept(id, most)    from the front on: 7, 9 join set `id`; 3 depends on 7 and stays in front
//   retire(id)          results of the set are folded in: it is in flight no more
//
// The scheduler holds none of the variables' data. It asks for the correlations of a variable once,
// with all that it knows by then (wanted(), for a worker to answer), and keeps a bit of each pair:
// dependent or not. A candidate that is not known yet waits. So many variables at most are known at
// a time; those that were in flight longest ago are forgotten for others.
//
// Nobody starves: a known candidate that was passed over by `patience` sets is an elder, and
// whoever stands behind it joins only if it does not depend on it; so an elder in front joins at
// the latest when the sets that are in flight by then have retired.
//
// A variable depends on itself: queued twice, it is in flight once. The same calls give the same
// sets. Time: accept() looks at a row of bits for each that waits. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "schedmp/variables/conflict_table.h"

namespace kerf::schedmp {

struct DependencyOptions {
  double threshold = 0.25;      // from 0 up to 1
  int64_t most_known = 16'384;  // variables, in n^2 / 8 bytes: 32 MB
  int patience = 8;             // sets
};

// A question: the correlation of each of these rows with each of these columns. Of columns of unit
// length x of a matrix, x_i . x_j is the correlation of i and j; workers that hold some rows of it
// each have a part of that sum.
struct WantedBlock {
  int64_t id = 0;
  std::vector<int64_t> rows, columns;
  bool empty() const { return rows.empty(); }
};

class DependencyFilter {
 public:
  // Throws Error{kUsage} of options that cannot be.
  explicit DependencyFilter(const DependencyOptions& options);

  // Behind those that wait.
  void queue(std::span<const int64_t> candidates);
  int64_t waiting() const { return std::ssize(waiting_); }
  // Of those, whose correlations are known.
  int64_t waiting_known() const;

  // Up to so many candidates, in flight from now on under this id, of which no other set in flight
  // has one. None may join: an empty set, which is not in flight.
  std::vector<int64_t> accept(int64_t id, int64_t most);
  void retire(int64_t id);

  // Of candidates that are not known, those that wait longest, in a block of so many correlations
  // or of one row. Each is asked for once, so that every block has to be answered, in any order.
  WantedBlock wanted(int64_t most_correlations);
  // `correlations` are row by row. Throws Error{kUsage} of one that is none; a variable that varies
  // not at all has 0 with all, itself too.
  void learn(const WantedBlock& asked, std::span<const double> correlations);

  // What a snapshot holds of it with no set in flight, of one that was made of the same options.
  template <class Archive>
  void serialize(Archive& archive) {
    std::vector<Candidate> waiting(waiting_.begin(), waiting_.end());
    archive(conflicts_, slots_, used_slots_, waiting, sets_, blocks_);
    if (!Archive::is_loading::value) return;
    waiting_.assign(waiting.begin(), waiting.end());
    slot_of_.clear();
    for (size_t slot = 0; slot < used_slots_; ++slot)
      if (slots_[slot].state != State::kFree) slot_of_.emplace(slots_[slot].variable, slot);
  }

 private:
  struct Candidate {
    int64_t variable = 0;
    int passed_over = 0;  // sets
    template <class Archive>
    void serialize(Archive& archive) {
      archive(variable, passed_over);
    }
  };
  enum class State : uint8_t { kFree, kAsked, kKnown };
  struct Slot {
    State state = State::kFree;
    int64_t variable = 0;
    int64_t asked = 0;  // the block that asked for it
    int64_t used = 0;   // when it was last in flight, by the number of sets
    template <class Archive>
    void serialize(Archive& archive) {
      archive(state, variable, asked, used);
    }
  };
  std::optional<size_t> known(int64_t variable) const;
  bool has_slot(int64_t variable) const { return slot_of_.contains(variable); }
  std::optional<size_t> free_slot();
  void forget(size_t slot);
  bool was_asked_by(int64_t block, size_t slot) const {
    return slots_[slot].state != State::kFree && slots_[slot].asked <= block;
  }

  DependencyOptions options_;
  ConflictTable conflicts_;
  std::vector<Slot> slots_;
  size_t used_slots_ = 0;  // those behind were never used
  std::unordered_map<int64_t, size_t> slot_of_;
  std::deque<Candidate> waiting_;
  std::map<int64_t, std::vector<size_t>> in_flight_;  // slots, by id of the set
  SlotSet busy_;                                      // in flight
  int64_t sets_ = 0;
  int64_t blocks_ = 0;
};

}  // namespace kerf::schedmp
