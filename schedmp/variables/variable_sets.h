// The sets of variables that a program's rounds work on, chosen in one of three ways. Ties the
// parts of this folder together for coordinate methods, where a round's result says by how much
// each variable of its set changed.
//
//   kUniform            every variable once a pass
//   kPriority           by how much it changed last; sets may hold variables that depend on each
//                       other, and then diverge
//   kPriorityFiltered   likewise, and of all variables that are being changed no two depend on each
//                       other
//
// A variable that stood still when it was last looked at hardly changes anything, so that behind
// the filter it is looked at only: by how much it would change is told, and it does not change. If
// it would, it goes through the filter next time.
//
// The same calls give the same sets. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "schedmp/variables/dependency_filter.h"
#include "schedmp/variables/priority_sampler.h"
#include "schedmp/variables/uniform_sampler.h"

namespace kerf::schedmp {

enum class Sampling : uint8_t { kUniform, kPriority, kPriorityFiltered };

struct VariableSetOptions {
  Sampling sampling = Sampling::kPriorityFiltered;
  int64_t variables = 0;
  int64_t size = 256;  // of a set, at most; as many again may be looked at
  uint64_t seed = 1;
  double floor = PrioritySampler::kFloor;
  DependencyOptions dependency;
  int64_t most_correlations = 65'536;  // asked for in a round
};

class VariableSets {
 public:
  // Throws Error{kUsage} of options that cannot be.
  explicit VariableSets(const VariableSetOptions& options);

  struct Chosen {
    std::vector<int64_t> set;
    std::vector<int64_t> looked_at;  // not to be changed
    WantedBlock wanted;              // to be answered
    bool empty() const { return set.empty() && looked_at.empty() && wanted.empty(); }
  };
  // For the round of this number, from then on under way. Nothing at all: nothing can begin before
  // a round is folded in.
  Chosen choose(int64_t round);
  void learn(const WantedBlock& asked, std::span<const double> correlations);
  // The round is under way no more. `deltas` are those of its set, and then those that what was
  // looked at would have, in their order. Throws Error{kUsage} if one is not finite.
  void fold(int64_t round, std::span<const double> deltas);
  // By how much every variable would change now, as if it had been looked at; of no use to
  // kUniform.
  void restart(std::span<const double> deltas);
  // What a snapshot holds of it with no round under way, of one that was made of the same options.
  template <class Archive>
  void serialize(Archive& archive) {
    if (uniform_) archive(*uniform_);
    if (priority_) archive(*priority_);
    if (filter_) archive(*filter_);
    archive(moves_);
  }

 private:
  std::vector<int64_t> draw(int64_t most);
  Chosen choose_filtered(int64_t round);

  VariableSetOptions options_;
  std::optional<UniformSampler> uniform_;
  std::optional<PrioritySampler> priority_;
  std::optional<DependencyFilter> filter_;
  std::vector<uint8_t> moves_;  // by variable: it changed, or would have, when last looked at
  struct Round {
    std::vector<int64_t> variables;
    bool has_set = false;
  };
  std::map<int64_t, Round> under_way_;
};

}  // namespace kerf::schedmp
