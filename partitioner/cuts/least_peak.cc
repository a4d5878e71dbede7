#include "partitioner/cuts/least_peak.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kerf::partitioner {
namespace {

constexpr int kMostHeld = 24;     // divisions that hold least
constexpr int kMostRepeated = 4;  // of these, that were looked at before
constexpr int kMostShifted = 60;  // divisions with units shifted

// Ends of stages with which this one has a few units less, at either end, or one more: what goes to
// and fro at a boundary takes memory, too.
std::vector<std::vector<int>> shifted_ends(const std::vector<int>& ends, size_t stage) {
  std::vector<std::vector<int>> result;
  const auto add = [&](size_t boundary, int by) {
    std::vector<int> changed = ends;
    changed[boundary] += by;
    const int begin = boundary == 0 ? 0 : changed[boundary - 1];
    if (changed[boundary] > begin && changed[boundary] < changed[boundary + 1])
      result.push_back(std::move(changed));
  };
  const bool has_next = stage + 1 < ends.size();
  for (const int by : {1, 2, 4, -1}) {
    if (has_next) add(stage, -by);
    if (stage > 0) add(stage - 1, by);
  }
  return result;
}

// The best of the divisions that were looked at.
class LeastPeak {
 public:
  LeastPeak(const LayerSearch& search, const PeaksOfStages& peaks_of, double enough)
      : search_(search), peaks_of_(peaks_of), enough_(enough) {}

  const std::optional<LayerDivision>& best() const { return best_; }
  bool is_enough() const { return most_ <= enough_; }

  const std::vector<double>& look(const LayerDivision& division) {
    const auto [found, is_new] = known_.try_emplace(division.stages);
    std::vector<double>& peaks = found->second;
    if (!is_new) return peaks;
    peaks = peaks_of_(division, most_);
    if (const double most = std::ranges::max(peaks); !best_ || most < most_) {
      most_ = most;
      best_ = division;
      fullest_ = static_cast<size_t>(std::ranges::max_element(peaks) - peaks.begin());
    }
    return peaks;
  }

  // What stages take beyond what their nodes hold is halfway between the last two, so that it
  // settles, though one division may come several times before the next.
  void hold_less() {
    std::vector<double> beyond(search_.limits().device_type.size());
    const double all = 1 + search_.all_held();
    int repeated = 0;
    for (int attempt = 0; attempt < kMostHeld && !is_enough(); ++attempt) {
      const double most = all + std::max(0.0, std::ranges::max(beyond));
      const auto cap = search_.least_cap(0, static_cast<int64_t>(most), beyond);
      if (!cap.division) return;
      if (known_.contains(cap.division->stages) && ++repeated > kMostRepeated) return;
      const std::vector<double>& peaks = look(*cap.division);
      for (size_t s = 0; s < beyond.size(); ++s) {
        const double now = peaks[s] - cap.division->memory[s];
        beyond[s] = attempt == 0 ? now : (beyond[s] + now) / 2;
      }
    }
  }

  void shift_units() {
    if (!best_) return;
    auto [line, ends] = search_.segmented(*best_);
    int looked_at = 0;
    for (bool better = true; better && looked_at < kMostShifted && !is_enough();) {
      better = false;
      for (std::vector<int>& changed : shifted_ends(ends, fullest_)) {
        const double before = most_;
        look(search_.division_of(line, search_.limits(), changed));
        ++looked_at;
        better = most_ < before;
        if (better) ends = std::move(changed);
        if (better) break;
      }
    }
  }

 private:
  const LayerSearch& search_;
  const PeaksOfStages& peaks_of_;
  const double enough_;
  std::map<std::vector<std::vector<int>>, std::vector<double>> known_;  // by stages
  std::optional<LayerDivision> best_;
  double most_ = kNever;
  size_t fullest_ = 0;  // stage
};

}  // namespace

std::optional<LayerDivision> least_peak(const LayerSearch& search,
                                        const std::optional<LayerDivision>& first,
                                        const PeaksOfStages& peaks, double enough) {
  LeastPeak least(search, peaks, enough);
  if (const auto few = search.few_divisions(search.limits())) {
    for (const LayerDivision& division : *few)
      if (!least.is_enough()) least.look(division);
    return least.best();
  }
  if (first) least.look(*first);
  least.hold_less();
  least.shift_units();
  return least.best();
}

}  // namespace kerf::partitioner
