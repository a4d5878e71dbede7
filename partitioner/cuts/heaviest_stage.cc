#include "partitioner/cuts/heaviest_stage.h"

#include <algorithm>
#include <vector>

#include "partitioner/at.h"
#include "partitioner/cuts/growing_stage.h"

namespace kerf::partitioner {
namespace {

class StagesWith {
 public:
  StagesWith(const Units& units, const Ideals& ideals, int unit, double limit, int64_t visits)
      : units_(units), ideals_(ideals), stage_(units), least_(limit), visits_left_(visits) {
    find_missing(unit);
  }

  std::optional<double> find() {
    for (int start = 0; start < ideals_.size() && visits_left_ >= 0; ++start) {
      if (has_[at(start)] || missing_[at(start)] >= least_) continue;
      stage_.start(ideals_.units_in(start));
      grow(start, -1, {});
    }
    if (visits_left_ < 0) return std::nullopt;
    return least_;
  }

 private:
  double least_work(int unit) const {
    double least = kNever;
    for (const std::vector<double>& work : units_.work) least = std::min(least, work[at(unit)]);
    return least;
  }

  // Of the unit, and of what must come before it.
  void find_missing(int unit) {
    std::vector<bool> must(at(units_.size()));
    must[at(unit)] = true;
    std::vector<int> order = ideals_.units_in(ideals_.size() - 1);
    std::reverse(order.begin(), order.end());
    double all = 0;
    for (const int each : order) {
      const auto [begin, end] = boost::out_edges(at(each), units_.before);
      for (auto edge = begin; edge != end; ++edge)
        if (must[boost::target(*edge, units_.before)]) must[at(each)] = true;
      if (must[at(each)]) all += least_work(each);
    }
    missing_.assign(at(ideals_.size()), all);
    has_.assign(at(ideals_.size()), false);
    for (int ideal = 0; ideal < ideals_.size(); ++ideal)
      for (const Ideals::Step& step : ideals_.steps(ideal)) {
        has_[at(step.ideal)] = has_[at(ideal)] || step.unit == unit;
        missing_[at(step.ideal)] =
            has_[at(step.ideal)]
                ? 0  // sums leave rounding
                : missing_[at(ideal)] - (must[at(step.unit)] ? least_work(step.unit) : 0);
      }
  }

  // By units of no lower rank than the last, so that each stage is met once.
  void grow(int ideal, int last, const StageTotals& before) {
    for (const Ideals::Step& step : ideals_.steps(ideal)) {
      if (ideals_.rank(step.unit) < last) continue;
      if (--visits_left_ < 0) return;
      const StageTotals totals = stage_.add(step.unit, before);
      const double work =
          *std::min_element(totals.work.begin(),
                            totals.work.begin() + static_cast<std::ptrdiff_t>(units_.work.size()));
      const double missing = missing_[at(step.ideal)];
      if (has_[at(step.ideal)]) least_ = std::min(least_, work + totals.wire);
      if (work + missing + totals.least_wire < least_)
        grow(step.ideal, ideals_.rank(step.unit), totals);
      stage_.remove(step.unit);
    }
  }

  const Units& units_;
  const Ideals& ideals_;
  GrowingStage stage_;
  double least_;
  int64_t visits_left_;
  std::vector<bool> has_;        // ideals that have the unit
  std::vector<double> missing_;  // ideal -> the work that it lacks to have it
};

}  // namespace

std::optional<double> least_price_with(const Units& units, const Ideals& ideals, int unit,
                                       double limit, int64_t visits) {
  return StagesWith(units, ideals, unit, limit, visits).find();
}

}  // namespace kerf::partitioner
