#include "apps/report/sweep_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "apps/report/table.h"
#include "partitioner/svg.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

using partitioner::Point;
using schedmp::SweptPoint;

constexpr double kPlotLeft = 84;
constexpr double kPlotTop = 58;
constexpr double kPlotWidth = 620;
constexpr double kPlotHeight = 320;
constexpr double kLegend = kPlotLeft + kPlotWidth + 24;
constexpr double kLegendLine = 18;
constexpr int kGridLines = 4;
constexpr double kLogarithmic = 8;  // times as much on the right as on the left
constexpr std::array<const char*, 8> kColours = {"#2f6fb3", "#d9822b", "#3f9c5a", "#8a63c9",
                                                 "#c44e52", "#8c6d46", "#d36fae", "#5f6b78"};

class Plot {
 public:
  Plot(const SweepRecord& record, SweptQuantity quantity)
      : record_(record), quantity_(quantity), by_workers_(varies_in_workers_alone()) {
    for (const SweptPoint& point : record.points) {
      columns_.insert(x_of(point));
      auto& line = line_of(name_of(point));
      if (!point.refused.empty()) continue;
      line.emplace_back(x_of(point), value_of(point));
      most_ = std::max(most_, value_of(point));
    }
    logarithmic_ = *columns_.rbegin() >= kLogarithmic * *columns_.begin();
  }

  size_t lines() const { return lines_.size(); }

  std::string draw() {
    const std::string what = quantity_ == SweptQuantity::kBubble ? "idle, of all workers' time"
                                                                 : "a step, in units of the costs";
    svg_.text({16, 28}, "title", "start", what);
    svg_.text({16, 48}, "subtitle", "start", by_workers_ ? "by workers" : "by micro-batches");
    draw_axes();
    for (size_t number = 0; number < lines_.size(); ++number) draw_line(number);
    const double legend = kPlotTop + kLegendLine * static_cast<double>(lines_.size());
    return svg_.finish(kLegend + 260, std::max(kPlotTop + kPlotHeight + 40, legend + 20), what);
  }

 private:
  using Line = std::vector<std::pair<int, double>>;

  bool varies_in_workers_alone() const {
    std::set<int> micro_batches, workers;
    for (const SweptPoint& point : record_.points) {
      micro_batches.insert(point.micro_batches);
      workers.insert(point.workers);
    }
    return micro_batches.size() == 1 && workers.size() > 1;
  }
  int x_of(const SweptPoint& point) const {
    return by_workers_ ? point.workers : point.micro_batches;
  }
  double value_of(const SweptPoint& point) const {
    return quantity_ == SweptQuantity::kBubble ? point.bubble.step : point.bubble.makespan;
  }

  std::string name_of(const SweptPoint& point) const {
    std::string name = point.schedule;
    if (!by_workers_) name += format(", {}", plural(point.workers, "worker"));
    const SweepRecord::Setting& setting = record_.of(point);
    if (record_.settings.size() > 1 && !setting.costs.empty()) name += ", " + setting.costs;
    if (!setting.link.empty()) name += ", link " + setting.link;
    return name;
  }
  Line& line_of(const std::string& name) {
    const auto [found, added] = numbers_.try_emplace(name, lines_.size());
    if (added) {
      lines_.emplace_back();
      names_.push_back(name);
    }
    return lines_[found->second];
  }

  double across(int x) const {
    const int first = *columns_.begin(), last = *columns_.rbegin();
    if (first == last) return kPlotLeft + kPlotWidth / 2;
    const double part = logarithmic_ ? std::log(1.0 * x / first) / std::log(1.0 * last / first)
                                     : 1.0 * (x - first) / (last - first);
    return kPlotLeft + kPlotWidth * part;
  }
  double up(double value) const {
    return kPlotTop + kPlotHeight * (1 - (most_ > 0 ? value / most_ : 0));
  }

  void draw_axes() {
    for (int i = 0; i <= kGridLines; ++i) {
      const double value = most_ * i / kGridLines;
      const Point line[] = {{kPlotLeft, up(value)}, {kPlotLeft + kPlotWidth, up(value)}};
      svg_.line(line, "local", "#d5d9de");
      svg_.text(
          {kPlotLeft - 8, up(value) + 4}, "small", "end",
          quantity_ == SweptQuantity::kBubble ? human_percent(value) : format("{:.4g}", value));
      if (most_ == 0) break;
    }
    double room = -1e9;
    for (const int column : columns_) {
      if (across(column) - room < 36) continue;
      room = across(column);
      svg_.text({room, kPlotTop + kPlotHeight + 20}, "small", "middle", format("{}", column));
    }
  }

  void draw_line(size_t number) {
    const char* colour = kColours[number % kColours.size()];
    const double size = 3 + 2 * std::floor(static_cast<double>(number / kColours.size()));
    const double legend = kPlotTop + kLegendLine * static_cast<double>(number);
    svg_.rectangle({kLegend - size, legend - size}, 2 * size, 2 * size, size, colour);
    svg_.text({kLegend + 14, legend + 4}, "small", "start", names_[number]);
    std::vector<Point> points;
    for (const auto& [x, value] : lines_[number]) points.push_back({across(x), up(value)});
    if (points.size() > 1) svg_.line(points, "bridge", colour);
    for (size_t i = 0; i < points.size(); ++i) {
      svg_.open_group(format("{}, {}: {:.6g}", names_[number], lines_[number][i].first,
                             lines_[number][i].second));
      svg_.rectangle({points[i].x - size, points[i].y - size}, 2 * size, 2 * size, size, colour);
      svg_.close_group();
    }
  }

  const SweepRecord& record_;
  SweptQuantity quantity_;
  bool by_workers_;
  std::set<int> columns_;
  bool logarithmic_ = false;
  double most_ = 0;
  std::map<std::string, size_t> numbers_;
  std::vector<std::string> names_;
  std::vector<Line> lines_;
  partitioner::Svg svg_;
};

}  // namespace

std::optional<std::string> draw_sweep(const SweepRecord& record, SweptQuantity quantity) {
  if (record.points.empty()) return std::nullopt;
  Plot plot(record, quantity);
  if (plot.lines() > kMostLines) return std::nullopt;
  return plot.draw();
}

}  // namespace kerf::apps
