#include "apps/report/convergence_picture.h"

#include <algorithm>
#include <cmath>

#include "partitioner/svg.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

using partitioner::Point;

constexpr Point kCorner{84, 58};
constexpr double kWide = 620, kHigh = 320;
constexpr double kLeastDrawn = 1e-12;
constexpr const char* kOfObjective = "#2f6fb3";
constexpr const char* kOfGap = "#d9822b";

class ConvergencePlot {
 public:
  explicit ConvergencePlot(const std::vector<ConvergencePoint>& points) {
    double least = points.front().objective;
    for (const ConvergencePoint& each : points) least = std::min(least, each.objective);
    for (const ConvergencePoint& each : points) {
      const double above = least > 0 ? (each.objective - least) / least : 0;
      objectives_.push_back({each.seconds, power_of(above)});
      if (each.gap) gaps_.push_back({each.seconds, power_of(*each.gap)});
      last_ = std::max(last_, each.seconds);
    }
    for (const auto* line : {&objectives_, &gaps_})
      for (const Point& each : *line) {
        lowest_ = std::min(lowest_, std::floor(each.y));
        highest_ = std::max(highest_, std::ceil(each.y));
      }
  }

  std::string draw(const std::string& title) {
    svg_.text({16, 28}, "title", "start", title);
    svg_.text({16, 48}, "subtitle", "start", "over seconds, by powers of ten");
    draw_axes();
    draw_line(objectives_, kOfObjective, 0, "objective, above the least");
    if (!gaps_.empty()) draw_line(gaps_, kOfGap, 1, "duality gap");
    return svg_.finish(kCorner.x + kWide + 260, kCorner.y + kHigh + 40, title);
  }

 private:
  static double power_of(double value) { return std::log10(std::max(value, kLeastDrawn)); }
  Point place(const Point& point) const {
    const double across = last_ > 0 ? point.x / last_ : 0.5;
    const double up = highest_ > lowest_ ? (point.y - lowest_) / (highest_ - lowest_) : 0.5;
    return {kCorner.x + kWide * across, kCorner.y + kHigh * (1 - up)};
  }

  void draw_axes() {
    for (double power = lowest_; power <= highest_; ++power) {
      const Point left = place({0, power});
      const Point line[] = {{kCorner.x, left.y}, {kCorner.x + kWide, left.y}};
      svg_.line(line, "local", "#d5d9de");
      svg_.text({kCorner.x - 8, left.y + 4}, "small", "end", format("1e{:g}", power));
    }
    svg_.text({kCorner.x, kCorner.y + kHigh + 20}, "small", "middle", "0");
    svg_.text({kCorner.x + kWide, kCorner.y + kHigh + 20}, "small", "end", human_seconds(last_));
  }

  void draw_line(const std::vector<Point>& points, const char* colour, int number,
                 const std::string& name) {
    constexpr double kDot = 3;
    const Point legend{kCorner.x + kWide + 24, kCorner.y + 18.0 * number};
    svg_.rectangle({legend.x - kDot, legend.y - kDot}, 2 * kDot, 2 * kDot, kDot, colour);
    svg_.text({legend.x + 14, legend.y + 4}, "small", "start", name);
    std::vector<Point> placed;
    for (const Point& each : points) placed.push_back(place(each));
    if (placed.size() > 1) svg_.line(placed, "bridge", colour);
    for (const Point& each : placed)
      svg_.rectangle({each.x - kDot / 2, each.y - kDot / 2}, kDot, kDot, kDot / 2, colour);
  }

  std::vector<Point> objectives_, gaps_;  // seconds, and powers of ten
  double last_ = 0;                       // second
  double lowest_ = 0, highest_ = -12;
  partitioner::Svg svg_;
};

}  // namespace

std::string draw_convergence(const std::vector<ConvergencePoint>& points,
                             const std::string& title) {
  KERF_CHECK(!points.empty(), "a picture of no point");
  return ConvergencePlot(points).draw(title);
}

}  // namespace kerf::apps
