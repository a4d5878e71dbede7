#include "schedmp/variables/priority_sampler.h"

#include <algorithm>
#include <cmath>

#include "runtime/error.h"
#include "schedmp/variables/variables.h"

namespace kerf::schedmp {
namespace {

// Uniform in [0, 1) with 53 bits.
double share_of(const ops::Words& words) {
  const uint64_t bits = uint64_t{words.of[0]} << 32 | words.of[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

PrioritySampler::PrioritySampler(int64_t variables, uint64_t seed, double floor)
    : floor_(floor),
      stream_(ops::stream_of({seed, ops::kSamplingPurpose})),
      first_pass_(ops::permutation(checked_variables(variables), seed, 0)),
      magnitudes_(variables),
      drawn_(first_pass_.size()) {
  if (!(floor > 0 && floor <= 1))
    throw Error(ErrorCode::kUsage,
                format("a floor of {} x the mean change: take one above 0, so that no variable "
                       "starves, and up to 1; {} is a good one",
                       floor, kFloor));
}

int64_t PrioritySampler::draw_by_priority() {
  const double share = share_of(stream_.block(draws_++));
  const double mean = magnitudes_.sum() / static_cast<double>(magnitudes_.count());
  auto variable = magnitudes_.at(share, floor_ * mean);
  // Where nothing changes any more, all are alike.
  if (!variable) variable = magnitudes_.at(share, 1);
  magnitudes_.remove(*variable);
  return *variable;
}

std::vector<int64_t> PrioritySampler::draw(int64_t most) {
  std::vector<int64_t> set;
  while (std::ssize(set) < most && (in_first_pass() || magnitudes_.count() > 0)) {
    set.push_back(in_first_pass() ? first_pass_[static_cast<size_t>(next_++)] : draw_by_priority());
    drawn_[static_cast<size_t>(set.back())] = 1;
  }
  return set;
}

void PrioritySampler::result(int64_t variable, double delta) {
  KERF_CHECK(variable >= 0 && variable < std::ssize(drawn_), "variable {} of {}", variable,
             drawn_.size());
  uint8_t& drawn = drawn_[static_cast<size_t>(variable)];
  KERF_CHECK(drawn != 0, "a result of variable {}, which was not drawn", variable);
  keep(variable, delta);
  drawn = 0;
}

void PrioritySampler::restart(std::span<const double> deltas) {
  KERF_CHECK(deltas.size() == drawn_.size(), "{} deltas of {} variables", deltas.size(),
             drawn_.size());
  for (size_t variable = 0; variable < deltas.size(); ++variable)
    if (drawn_[variable] == 0) keep(static_cast<int64_t>(variable), deltas[variable]);
  next_ = std::ssize(first_pass_);
}

void PrioritySampler::keep(int64_t variable, double delta) {
  const double magnitude = std::abs(delta);
  if (!(magnitude <= WeightTree::kMost))
    throw Error(ErrorCode::kUsage,
                format("variable {} changed by {}: the program diverges. Smaller sets, a smaller "
                       "depth, or a dependency filter with a lower threshold keep updates from "
                       "overshooting together",
                       variable, delta));
  magnitudes_.set(variable, magnitude);
}

}  // namespace kerf::schedmp
