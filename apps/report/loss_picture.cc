#include "apps/report/loss_picture.h"

#include <algorithm>
#include <utility>

#include "partitioner/svg.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

using partitioner::Point;

constexpr double kCurveLeft = 70;
constexpr double kCurveTop = 12;
constexpr size_t kCurveColumns = 760;
constexpr double kCurveHeight = 200;
constexpr double kMostLoss = 1e30;  // what is larger is drawn there

class Curve {
 public:
  explicit Curve(const std::vector<std::optional<double>>& losses) {
    for (const auto& each : losses)
      losses_.push_back(each ? std::optional(std::clamp(*each, -kMostLoss, kMostLoss))
                             : std::nullopt);
    for (const auto& each : losses_) {
      if (!each) continue;
      least_ = any_ ? std::min(least_, *each) : *each;
      most_ = any_ ? std::max(most_, *each) : *each;
      any_ = true;
    }
  }

  std::string draw() {
    if (!any_) return {};
    axis(least_);
    if (most_ > least_) axis(most_);
    svg_.text({kCurveLeft, kCurveTop + kCurveHeight + 18}, "small", "start", "step 0");
    if (losses_.size() > 1)
      svg_.text({kCurveLeft + kCurveColumns, kCurveTop + kCurveHeight + 18}, "small", "end",
                format("step {}", losses_.size() - 1));
    const size_t together = (losses_.size() + kCurveColumns - 1) / kCurveColumns;
    std::vector<Point> points;
    for (size_t begin = 0; begin < losses_.size(); begin += together) {
      const size_t end = std::min(begin + together, losses_.size());
      const bool finite = std::all_of(at(begin), at(end), [](const auto& l) { return l; });
      if (finite)
        add(begin, end, points);
      else
        put(std::exchange(points, {}));
    }
    put(points);
    return svg_.inset(kCurveLeft + kCurveColumns + 20, kCurveTop + kCurveHeight + 28,
                      "loss by step");
  }

 private:
  std::vector<std::optional<double>>::const_iterator at(size_t step) const {
    return losses_.begin() + static_cast<std::ptrdiff_t>(step);
  }
  double x_of(size_t step) const {
    const auto last = static_cast<double>(std::max<size_t>(losses_.size() - 1, 1));
    return kCurveLeft + static_cast<double>(step) / last * static_cast<double>(kCurveColumns);
  }
  double y_of(double loss) const {
    const double range = most_ - least_;
    return kCurveTop + (range > 0 ? (most_ - loss) / range * kCurveHeight : kCurveHeight / 2);
  }

  void axis(double loss) {
    const Point line[] = {{kCurveLeft, y_of(loss)}, {kCurveLeft + kCurveColumns, y_of(loss)}};
    svg_.line(line, "grid", "var(--grid)");
    svg_.text({kCurveLeft - 8, y_of(loss) + 4}, "small", "end", format("{:.4g}", loss));
  }

  void add(size_t begin, size_t end, std::vector<Point>& points) const {
    const auto [least, most] = std::minmax_element(at(begin), at(end));
    points.push_back({x_of(begin), y_of(**least)});
    if (least != most) points.push_back({x_of(begin), y_of(**most)});
  }

  void put(const std::vector<Point>& points) {
    if (points.size() == 1)
      svg_.rectangle({points[0].x - 2, points[0].y - 2}, 4, 4, 2, "var(--forward)");
    else if (!points.empty())
      svg_.line(points, "curve", "var(--forward)");
  }

  std::vector<std::optional<double>> losses_;
  bool any_ = false;
  double least_ = 0, most_ = 0;
  partitioner::Svg svg_;
};

}  // namespace

std::string draw_losses(const std::vector<std::optional<double>>& losses) {
  return Curve(losses).draw();
}

}  // namespace kerf::apps
