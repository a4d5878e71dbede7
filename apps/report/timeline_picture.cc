#include "apps/report/timeline_picture.h"

#include <algorithm>
#include <cmath>

#include "partitioner/svg.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr double kLabels = 150;     // wide, before the bars
constexpr double kAxis = 26;        // high, above them
constexpr double kBarHeight = 20;   // high
constexpr double kOfWorker = 54;    // high, with two bars
constexpr double kLeastBars = 900;  // wide, of the bars
constexpr double kMostBars = 4000;
constexpr double kOfAction = 24;  // likewise, of each of the longest row
constexpr double kLetter = 6.4;   // wide
constexpr int kTicks = 8;
constexpr double kShortest = 1e-9;  // seconds, of all

std::string colour_of(const std::string& action) {
  const size_t letter = action.find_first_not_of("0123456789");
  switch (letter == std::string::npos ? '?' : action[letter]) {
    case 'F':
      return "var(--forward)";
    case 'I':
      return "var(--inputs)";
    case 'W':
      return "var(--weights)";
    case 'B':
      return "var(--both)";
    default:
      return "var(--other)";
  }
}

// 1, 2 or 5 times a power of ten, so that there are some kTicks.
double tick_of(double all) {
  const double rough = all / kTicks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= rough) return times * power;
  return 10 * power;
}

class Chart {
 public:
  Chart(const TracedStep& traced, double stretch) : traced_(traced), stretch_(stretch) {
    size_t most = 0;
    for (const TracedStep::Worker& worker : traced.workers) {
      most = std::max(most, worker.actions.size());
      for (const TracedStep::Done& each : worker.actions)
        seconds_ = std::max({seconds_, each.measured.end, each.predicted.end * stretch});
    }
    width_ = std::clamp(kOfAction * static_cast<double>(most), kLeastBars, kMostBars);
  }

  std::string draw() {
    if (seconds_ < kShortest) return {};
    const double bottom = kAxis + kOfWorker * static_cast<double>(traced_.workers.size());
    axis(bottom);
    double y = kAxis + 4;
    for (const TracedStep::Worker& worker : traced_.workers) {
      svg_.text({4, y + 26}, "name", "start", format("worker {}", worker.worker));
      svg_.text({kLabels - 8, y + 14}, "small", "end", "predicted");
      svg_.text({kLabels - 8, y + 14 + kBarHeight + 2}, "small", "end", "measured");
      for (const TracedStep::Done& each : worker.actions) {
        bar(each, worker.worker, true, y);
        bar(each, worker.worker, false, y + kBarHeight + 2);
      }
      y += kOfWorker;
    }
    return svg_.inset(kLabels + width_ + 30, bottom + 8,
                      format("step {}, predicted above measured", traced_.step));
  }

 private:
  double x_of(double at) const { return kLabels + at / seconds_ * width_; }

  void axis(double bottom) {
    const double tick = tick_of(seconds_);
    for (int i = 0; i * tick <= seconds_; ++i) {
      const double x = x_of(i * tick);
      const partitioner::Point line[] = {{x, kAxis - 4}, {x, bottom}};
      svg_.line(line, "grid", "var(--grid)");
      svg_.text({x, 14}, "small", "middle", i == 0 ? "0" : human_seconds(i * tick));
    }
  }

  void bar(const TracedStep::Done& done, int worker, bool predicted, double y) {
    const TracedStep::Times& times = predicted ? done.predicted : done.measured;
    const double stretch = predicted ? stretch_ : 1;
    const double x = x_of(times.begin * stretch);
    const double width = std::max(x_of(times.end * stretch) - x, 0.2);
    svg_.open_group(format("{} on worker {}, {}: {}, from {} to {} of the step", done.action,
                           worker, predicted ? "predicted" : "measured", human_seconds(times.busy),
                           human_seconds(times.begin), human_seconds(times.end)));
    svg_.rectangle({x, y}, width, kBarHeight, 2, colour_of(done.action));
    const std::string text =
        width >= kLetter * static_cast<double>(done.action.size()) + 4 ? done.action : "";
    if (!text.empty()) svg_.text({x + width / 2, y + 14}, "onbar", "middle", text);
    svg_.close_group();
  }

  const TracedStep& traced_;
  double stretch_;
  double seconds_ = 0;
  double width_ = 0;
  partitioner::Svg svg_;
};

}  // namespace

std::string draw_timeline(const TracedStep& traced, double stretch) {
  return Chart(traced, stretch).draw();
}

}  // namespace kerf::apps
