// The layer cut of the least peak: what nodes hold, which the search knows, is most of it; the rest
// shows on the finished division, and is much the same on the next one.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {
namespace {

constexpr int kMostHeld = 24;     // divisions that hold least
constexpr int kMostRepeated = 4;  // of these, that were looked at before
constexpr int kMostShifted = 60;  // divisions with units shifted

}  // namespace

// The best of the divisions that were looked at.
class LeastPeak {
 public:
  LeastPeak(const LayerSearch::Peaks& peaks_of, double enough)
      : peaks_of_(peaks_of), enough_(enough) {}

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
  bool knows(const LayerDivision& division) const { return known_.contains(division.stages); }

  const std::optional<LayerDivision>& best() const { return best_; }
  double most() const { return most_; }
  size_t fullest() const { return fullest_; }  // stage
  bool is_enough() const { return most_ <= enough_; }

 private:
  const LayerSearch::Peaks& peaks_of_;
  const double enough_;
  std::map<std::vector<std::vector<int>>, std::vector<double>> known_;  // by stages
  std::optional<LayerDivision> best_;
  double most_ = kNever;
  size_t fullest_ = 0;
};

namespace {

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

}  // namespace

std::optional<LayerDivision> LayerSearch::least_peak(const Peaks& peaks, double enough) const {
  LeastPeak least(peaks, enough);
  if (const auto few = few_divisions(limits_)) {
    for (const LayerDivision& division : *few)
      if (!least.is_enough()) least.look(division);
    return least.best();
  }
  if (free_) least.look(*free_);
  hold_less(least);
  shift_units(least);
  return least.best();
}

// What stages take beyond what their nodes hold is halfway between the last two, so that it
// settles, though one division may come several times before the next.
void LayerSearch::hold_less(LeastPeak& least) const {
  double all = 1;
  for (const UnitHeld& held : units_.held)
    all += held.fixed + *std::ranges::max_element(limits_.micro_batches) * held.per_micro_batch;
  std::vector<double> beyond(limits_.device_type.size());
  int repeated = 0;
  for (int attempt = 0; attempt < kMostHeld && !least.is_enough(); ++attempt) {
    const double most = all + std::max(0.0, *std::ranges::max_element(beyond));
    const LeastCap cap = least_cap(0, static_cast<int64_t>(most), beyond);
    if (!cap.division) return;
    if (least.knows(*cap.division) && ++repeated > kMostRepeated) return;
    const std::vector<double>& peaks = least.look(*cap.division);
    for (size_t s = 0; s < beyond.size(); ++s) {
      const double now = peaks[s] - cap.division->memory[s];
      beyond[s] = attempt == 0 ? now : (beyond[s] + now) / 2;
    }
  }
}

// Units by stage, within each as a line has them.
std::vector<int> LayerSearch::order_by_stage(const LayerDivision& division) const {
  const std::vector<int> stage_of = division.stage_of(graph_.size());
  std::vector<int> order = lines_.front().order();
  std::ranges::stable_sort(
      order, {}, [&](int unit) { return stage_of[at(units_.members[at(unit)].front())]; });
  return order;
}

void LayerSearch::shift_units(LeastPeak& least) const {
  if (!least.best()) return;
  const Line line(units_, order_by_stage(*least.best()));
  std::vector<int> ends;
  int end = 0;
  for (const std::vector<int>& nodes : least.best()->stages) {
    std::set<int> units;
    for (const int node : nodes) units.insert(units_.unit_of[at(node)]);
    ends.push_back(end += static_cast<int>(units.size()));
  }
  int looked_at = 0;
  for (bool better = true; better && looked_at < kMostShifted && !least.is_enough();) {
    better = false;
    for (std::vector<int>& changed : shifted_ends(ends, least.fullest())) {
      const double before = least.most();
      least.look(division_of(line, limits_, changed));
      ++looked_at;
      better = least.most() < before;
      if (better) ends = std::move(changed);
      if (better) break;
    }
  }
}

}  // namespace kerf::partitioner
