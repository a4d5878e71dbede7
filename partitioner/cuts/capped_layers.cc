#include "partitioner/cuts/capped_layers.h"

#include <algorithm>

namespace kerf::partitioner {
namespace {

constexpr int kMostTightenings = 16;
constexpr int kMostLoosenings = 6;

bool fits_within(const std::vector<double>& over) {
  return std::ranges::all_of(over, [](double bytes) { return bytes <= 0; });
}

}  // namespace

std::optional<LayerDivision> CappedLayers::best(const StageLimits& given) {
  looked_at_all_ = uncapped_fits_ = false;
  StageLimits limits = given;  // at first of no memory: the best of all may fit
  limits.memory.assign(limits.device_type.size(), kNever);
  uncapped_ = search_.best_of(limits);
  if (!uncapped_) return std::nullopt;
  std::optional<LayerDivision> division = uncapped_;
  std::vector<double> over = over_(*division);
  uncapped_fits_ = fits_within(over);
  if (uncapped_fits_) return uncapped_;
  if (auto few = search_.few_divisions(limits)) {
    looked_at_all_ = true;
    return search_.best_of_few(*std::move(few),
                               [&](const LayerDivision& each) { return fits_within(over_(each)); });
  }
  if (!limits.is_ordered()) search_.add_line(*uncapped_);
  for (size_t s = 0; s < over.size(); ++s) limits.memory[s] = division->memory[s] - over[s];
  for (int attempt = 1; attempt < kMostTightenings; ++attempt) {
    division = search_.another_of(limits);
    if (!division) return std::nullopt;
    over = over_(*division);
    if (fits_within(over)) return division;
    for (size_t s = 0; s < over.size(); ++s)  // as much of it will the next one take
      if (over[s] > 0) limits.memory[s] = std::min(limits.memory[s], division->memory[s] - over[s]);
  }
  return std::nullopt;
}

// What one division's stages take beyond what their nodes hold is the next one's no more: limits go
// halfway to what that says, and never below what fits.
LayerDivision CappedLayers::best_from(LayerDivision fits) {
  if (looked_at_all_ || uncapped_fits_) return fits;
  StageLimits limits = search_.limits();  // of no memory yet
  LayerDivision last = fits;
  std::vector<double> over = over_(last);
  std::vector<std::vector<std::vector<int>>> seen;
  for (int attempt = 0; attempt < kMostLoosenings; ++attempt) {
    for (size_t s = 0; s < over.size(); ++s) {
      const double room = last.memory[s] - over[s];
      const double before = limits.memory[s] == kNever ? room : limits.memory[s];
      limits.memory[s] = std::max(fits.memory[s], (before + room) / 2);
    }
    auto next = search_.another_of(limits);
    const double most = search_.least_bottleneck() * (1 + search_.slack()) * (1 + kBetter);
    const bool better =
        next && (fits.bottleneck > most || next->bytes < fits.bytes * (1 - kBetter));
    if (!better) break;
    if (std::ranges::find(seen, next->stages) != seen.end()) break;
    last = *std::move(next);
    seen.push_back(last.stages);
    over = over_(last);
    if (fits_within(over)) fits = last;
  }
  return fits;
}

}  // namespace kerf::partitioner
