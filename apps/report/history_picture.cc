#include "apps/report/history_picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "partitioner/svg.h"
#include "runtime/error.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

using partitioner::Point;
using Scale = Metric::Scale;

constexpr double kLeft = 84, kTop = 58;
constexpr double kWide = 620, kHigh = 200, kBetween = 44;
constexpr double kLeastDrawn = 1e-12;
constexpr int kSteps = 4;  // of a linear scale
constexpr std::array<const char*, 6> kColours = {"#2f6fb3", "#d9822b", "#3f9c5a",
                                                 "#8a63c9", "#c44e52", "#8c6d46"};

// One metric: seconds across, and up what its scale makes of the values.
struct Curve {
  std::vector<Point> points;
  double lowest = 0, highest = 0;
};

double least_of(const History& history, size_t metric) {
  double least = HUGE_VAL;
  for (const HistoryPoint& point : history.points())
    if (point.values[metric] && std::isfinite(*point.values[metric]))
      least = std::min(least, *point.values[metric]);
  return least;
}

double scaled(double value, Scale scale, double least) {
  if (scale == Scale::kLinear) return value;
  if (scale == Scale::kAboveLeast) value = least == 0 ? 0 : (value - least) / std::abs(least);
  return std::log10(std::max(value, kLeastDrawn));
}

Curve curve_of(const History& history, size_t metric) {
  const Scale scale = history.metrics()[metric].scale;
  const double least = least_of(history, metric);
  Curve curve{{}, HUGE_VAL, -HUGE_VAL};
  for (const HistoryPoint& point : history.points()) {
    if (!point.values[metric] || !std::isfinite(*point.values[metric])) continue;
    const double up = scaled(*point.values[metric], scale, least);
    curve.points.push_back({point.seconds, up});
    curve.lowest = std::min(curve.lowest, up);
    curve.highest = std::max(curve.highest, up);
  }
  if (scale != Scale::kLinear) {
    curve.lowest = std::floor(curve.lowest);
    curve.highest = std::ceil(curve.highest);
  }
  return curve;
}

class HistoryPlot {
 public:
  explicit HistoryPlot(const History& history) : history_(history) {
    for (const HistoryPoint& point : history.points()) last_ = std::max(last_, point.seconds);
  }

  std::string draw(const std::string& title) {
    svg_.text({16, 28}, "title", "start", title);
    svg_.text({16, 48}, "subtitle", "start", "over seconds");
    double top = kTop;
    for (size_t metric = 0; metric < history_.metrics().size(); ++metric) {
      const Curve curve = curve_of(history_, metric);
      if (curve.points.empty()) continue;
      draw_panel(metric, curve, top);
      top += kHigh + kBetween;
    }
    return svg_.finish(kLeft + kWide + 40, top, title);
  }

 private:
  Point place(const Curve& curve, const Point& point, double top) const {
    const double across = last_ > 0 ? point.x / last_ : 0.5;
    const double range = curve.highest - curve.lowest;
    const double up = range > 0 ? (point.y - curve.lowest) / range : 0.5;
    return {kLeft + kWide * across, top + kHigh * (1 - up)};
  }

  void draw_panel(size_t metric, const Curve& curve, double top) {
    const Metric& shown = history_.metrics()[metric];
    const bool above = shown.scale == Scale::kAboveLeast;
    svg_.text({kLeft + kWide, top + 14}, "name", "end",
              shown.title + (above ? ", above the least" : ""));
    draw_levels(shown.scale, curve, top);
    svg_.text({kLeft, top + kHigh + 18}, "small", "middle", "0");
    svg_.text({kLeft + kWide, top + kHigh + 18}, "small", "end", human_seconds(last_));
    draw_curve(curve, top, kColours[metric % kColours.size()]);
  }

  void draw_levels(Scale scale, const Curve& curve, double top) {
    const bool linear = scale == Scale::kLinear;
    const double range = curve.highest - curve.lowest;
    const double step = linear ? range / kSteps : std::max(1.0, std::ceil(range / kSteps));
    for (int i = 0; i <= kSteps; ++i) {
      const double level = curve.lowest + i * step;
      const double y = place(curve, {0, level}, top).y;
      if (y < top - 1) break;
      const Point line[] = {{kLeft, y}, {kLeft + kWide, y}};
      svg_.line(line, "local", "#d5d9de");
      svg_.text({kLeft - 8, y + 4}, "small", "end",
                linear ? format("{:.4g}", level) : format("1e{:g}", level));
      if (step <= 0) break;
    }
  }

  void draw_curve(const Curve& curve, double top, const char* colour) {
    constexpr double kDot = 3;
    std::vector<Point> placed;
    for (const Point& each : curve.points) placed.push_back(place(curve, each, top));
    if (placed.size() > 1) svg_.line(placed, "bridge", colour);
    for (const Point& each : placed)
      svg_.rectangle({each.x - kDot / 2, each.y - kDot / 2}, kDot, kDot, kDot / 2, colour);
  }

  const History& history_;
  double last_ = 0;  // second
  partitioner::Svg svg_;
};

}  // namespace

std::string draw_history(const History& history, const std::string& title) {
  return HistoryPlot(history).draw(title);
}

}  // namespace kerf::apps
