#include "apps/report/convergence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/report/table.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

double passes_of(const ConvergencePoint& point, int64_t pass) {
  return static_cast<double>(point.updates) / static_cast<double>(pass);
}

std::string gap_text(const std::optional<double>& gap) {
  return gap ? format("{:.2g}", *gap) : std::string();
}

// Gaps fall by factors: how much of the way from the first to the tolerance is behind us, in [0,
// 1].
double way_of(double first, double gap, double tolerance) {
  if (gap <= tolerance) return 1;
  if (!(first > gap) || tolerance <= 0) return 0;
  return std::log(first / gap) / std::log(first / tolerance);
}

}  // namespace

Json to_json(const std::vector<ConvergencePoint>& points) {
  Json list = Json::array();
  for (const ConvergencePoint& each : points)
    list.push_back({{"rounds", each.rounds},
                    {"updates", each.updates},
                    {"seconds", each.seconds},
                    {"objective", each.objective},
                    {"gap", each.gap ? Json(*each.gap) : Json()}});
  return list;
}

std::string convergence_table(const std::vector<ConvergencePoint>& points, int64_t pass,
                              size_t most_rows) {
  Table table({"", "passes", "updates", "objective", "gap"});
  for (const size_t place : told_places(points.size(), most_rows)) {
    const ConvergencePoint& each = points[place];
    table.add({human_seconds(each.seconds), format("{:.1f}", passes_of(each, pass)),
               human_count(each.updates), format("{:.8g}", each.objective), gap_text(each.gap)});
  }
  return table.text();
}

ConvergenceProgress::ConvergenceProgress(Progress::Options options, int64_t pass, double tolerance)
    : DrawnLine(std::move(options)), pass_(pass), tolerance_(tolerance) {}

void ConvergenceProgress::tell(const ConvergencePoint& point) {
  if (point.gap) gap_ = point.gap;
  if (!first_gap_) first_gap_ = point.gap;
  draw([&] { return line_of(point); });
}

std::string ConvergenceProgress::line_of(const ConvergencePoint& point) const {
  std::string line = format("{} pass {:.1f}  objective {:.6g}",
                            bar_of_part(gap_ ? way_of(*first_gap_, *gap_, tolerance_) : 0),
                            passes_of(point, pass_), point.objective);
  if (gap_) line += format("  gap {:.2g} of {:.2g}", *gap_, tolerance_);
  return line + "  " + updates_a_second(point.updates, point.seconds);
}

}  // namespace kerf::apps
