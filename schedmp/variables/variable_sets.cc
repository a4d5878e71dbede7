#include "schedmp/variables/variable_sets.h"

#include <algorithm>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr int64_t kMostUnknown = 8;  // sets of them

}  // namespace

VariableSets::VariableSets(const VariableSetOptions& options) : options_(options) {
  if (options.size < 1)
    throw Error(ErrorCode::kUsage, format("sets of {} variables", options.size));
  if (options.sampling == Sampling::kUniform)
    uniform_.emplace(options.variables, options.seed);
  else
    priority_.emplace(options.variables, options.seed, options.floor);
  if (options.sampling != Sampling::kPriorityFiltered) return;
  DependencyOptions dependency = options.dependency;
  dependency.most_known = std::min(dependency.most_known, options.variables);
  filter_.emplace(dependency);
  moves_.resize(static_cast<size_t>(options.variables));
}

std::vector<int64_t> VariableSets::draw(int64_t most) {
  if (most <= 0) return {};
  return uniform_ ? uniform_->draw(most) : priority_->draw(most);
}

VariableSets::Chosen VariableSets::choose(int64_t round) {
  Chosen chosen;
  if (filter_)
    chosen = choose_filtered(round);
  else
    chosen.set = draw(options_.size);
  if (chosen.empty()) return chosen;
  Round& under_way = under_way_[round];
  under_way.variables = chosen.set;
  under_way.has_set = !chosen.set.empty();
  under_way.variables.insert(under_way.variables.end(), chosen.looked_at.begin(),
                             chosen.looked_at.end());
  return chosen;
}

// Twice as many that are known wait as a set takes, so that some are left for the next where many
// depend on each other. Those that are not known yet are no reason to keep others waiting, unless
// they are very many.
VariableSets::Chosen VariableSets::choose_filtered(int64_t round) {
  Chosen chosen;
  std::vector<int64_t> candidates;
  const int64_t known = filter_->waiting_known();
  const bool too_many = filter_->waiting() - known >= kMostUnknown * options_.size;
  const int64_t room = too_many ? 0 : 2 * options_.size - known;
  for (const int64_t variable : draw(std::min(room, options_.size)))
    (moves_[static_cast<size_t>(variable)] != 0 ? candidates : chosen.looked_at)
        .push_back(variable);
  filter_->queue(candidates);
  chosen.set = filter_->accept(round, options_.size);
  chosen.wanted = filter_->wanted(options_.most_correlations);
  return chosen;
}

void VariableSets::learn(const WantedBlock& asked, std::span<const double> correlations) {
  KERF_CHECK(filter_, "correlations for sets that are not filtered");
  filter_->learn(asked, correlations);
}

void VariableSets::fold(int64_t round, std::span<const double> deltas) {
  const auto found = under_way_.find(round);
  KERF_CHECK(found != under_way_.end(), "round {} is not under way", round);
  const Round folded = std::move(found->second);
  under_way_.erase(found);
  KERF_CHECK(folded.variables.size() == deltas.size(), "{} deltas of {} variables", deltas.size(),
             folded.variables.size());
  for (size_t i = 0; i < deltas.size(); ++i) {
    const int64_t variable = folded.variables[i];
    if (uniform_)
      uniform_->done(variable);
    else
      priority_->result(variable, deltas[i]);
    if (filter_) moves_[static_cast<size_t>(variable)] = deltas[i] != 0 ? 1 : 0;
  }
  if (filter_ && folded.has_set) filter_->retire(round);
}

void VariableSets::restart(std::span<const double> deltas) {
  if (!priority_) return;
  priority_->restart(deltas);
  for (size_t variable = 0; variable < moves_.size(); ++variable)
    moves_[variable] = deltas[variable] != 0 ? 1 : 0;
}

}  // namespace kerf::schedmp
