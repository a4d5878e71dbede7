#include "partitioner/cuts/layer_caps.h"

#include <algorithm>

namespace kerf::partitioner {
namespace {

constexpr int kMostTightenings = 16;
constexpr int kMostLoosenings = 6;
constexpr double kCapRounding = 1e-9;

bool is_under(const std::vector<double>& above) {
  return std::all_of(above.begin(), above.end(), [](double bytes) { return bytes <= 0; });
}

}  // namespace

// By bottleneck the first that fits; of those within the slack of it then that of the fewest bytes.
std::optional<LayerDivision> CappedLayers::best_of_few(std::vector<LayerDivision> few) {
  std::ranges::stable_sort(
      few, {}, [](const LayerDivision& each) { return std::pair(each.bottleneck, each.bytes); });
  const auto fits = [&](const LayerDivision& each) { return is_under(over_(each)); };
  const auto first = std::ranges::find_if(few, fits);
  if (first == few.end()) return std::nullopt;
  const double most = first->bottleneck * (1 + search_.slack()) * (1 + kCapRounding);
  const auto key = [&](const LayerDivision& each) {
    return std::pair(search_.parts_close(each), each.bytes);
  };
  std::vector<LayerDivision> better;
  for (auto each = first + 1; each != few.end() && each->bottleneck <= most; ++each)
    if (key(*each) < key(*first)) better.push_back(*each);
  std::ranges::stable_sort(better, {}, key);
  const auto best = std::ranges::find_if(better, fits);
  search_.prove_by_all(first->bottleneck, few.size());
  return best == better.end() ? *first : *best;
}

std::optional<LayerDivision> CappedLayers::best(const StageLimits& given) {
  looked_at_all_ = free_fits_ = false;
  StageLimits limits = given;  // at first of no memory: the best of all may fit
  limits.memory.assign(limits.device_type.size(), kNever);
  free_ = search_.best_of(limits);
  if (!free_) return std::nullopt;
  std::optional<LayerDivision> division = free_;
  std::vector<double> above = over_(*division);
  free_fits_ = is_under(above);
  if (free_fits_) return free_;
  if (auto few = search_.few_divisions(limits)) {
    looked_at_all_ = true;
    return best_of_few(*std::move(few));
  }
  if (!limits.is_ordered()) search_.add_line(*free_);
  for (size_t s = 0; s < above.size(); ++s) limits.memory[s] = division->memory[s] - above[s];
  for (int attempt = 1; attempt < kMostTightenings; ++attempt) {
    division = search_.another_of(limits);
    if (!division) return std::nullopt;
    above = over_(*division);
    if (is_under(above)) return division;
    for (size_t s = 0; s < above.size(); ++s)  // as much of it will the next one take
      if (above[s] > 0)
        limits.memory[s] = std::min(limits.memory[s], division->memory[s] - above[s]);
  }
  return std::nullopt;
}

// What one division's stages take beyond what their nodes hold is the next one's no more: limits go
// halfway to what that says, and never below what fits.
LayerDivision CappedLayers::best_from(LayerDivision fits) const {
  if (looked_at_all_ || free_fits_) return fits;
  StageLimits limits = search_.limits();
  limits.memory.assign(limits.memory.size(), kNever);
  LayerDivision last = fits;
  std::vector<double> above = over_(last);
  std::vector<std::vector<std::vector<int>>> seen;
  for (int attempt = 0; attempt < kMostLoosenings; ++attempt) {
    for (size_t s = 0; s < above.size(); ++s) {
      const double room = last.memory[s] - above[s];
      const double before = limits.memory[s] == kNever ? room : limits.memory[s];
      limits.memory[s] = std::max(fits.memory[s], (before + room) / 2);
    }
    auto next = search_.another_of(limits);
    const double most = search_.least_bottleneck() * (1 + search_.slack()) * (1 + kCapRounding);
    const bool better =
        next && (fits.bottleneck > most || next->bytes < fits.bytes * (1 - kCapRounding));
    if (!better) break;
    if (std::ranges::find(seen, next->stages) != seen.end()) break;
    last = *std::move(next);
    seen.push_back(last.stages);
    above = over_(last);
    if (is_under(above)) fits = last;
  }
  return fits;
}

}  // namespace kerf::partitioner
