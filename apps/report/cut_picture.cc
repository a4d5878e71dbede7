#include "apps/report/cut_picture.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "partitioner/svg.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr double kWorkerBox = 170;  // wide
constexpr double kWorkerGap = 80;
constexpr double kStageLine = 16;
constexpr size_t kMostStages = 5;  // that are named in a box
constexpr double kArchRise = 46;   // of an arch to the next worker

class CutPicture {
 public:
  explicit CutPicture(const PlanRecord& plan) : plan_(plan), stages_(plan.workers.size()) {}

  std::string draw() {
    if (!sort()) return {};
    for (const auto& [key, bytes] : bytes_)
      farthest_ = std::max(farthest_, std::abs(key.to - key.from));
    const double top = rise_of(farthest_) * 0.75 + 24;
    size_t most = 1;
    for (const auto& lines : stages_) most = std::max(most, lines.size());
    const double height = 30 + kStageLine * static_cast<double>(std::min(most, kMostStages + 1));
    for (size_t worker = 0; worker < stages_.size(); ++worker) box(worker, top, height);
    for (const auto& [key, bytes] : bytes_) edge(key, bytes, top, height);
    const double width = static_cast<double>(stages_.size()) * (kWorkerBox + kWorkerGap);
    return svg_.inset(width, 2 * top + height, "the cut: workers, their stages and what they send");
  }

 private:
  struct Key {
    int from = 0;
    int to = 0;
    bool gradient = false;
    auto operator<=>(const Key&) const = default;
  };

  bool has(int worker) const { return worker >= 0 && std::cmp_less(worker, stages_.size()); }

  bool sort() {
    if (stages_.empty() || stages_.size() > kMostCutWorkers) return false;
    for (size_t stage = 0; stage < plan_.stages.size(); ++stage)
      for (const int worker : plan_.stages[stage].workers) {
        if (!has(worker)) return false;
        stages_[static_cast<size_t>(worker)].push_back(stage);
      }
    for (const PlanRecord::Route& route : plan_.routes) {
      if (!has(route.from) || !has(route.to)) return false;
      if (route.from != route.to && !route.of_step)
        bytes_[{route.from, route.to, route.gradient}] += route.bytes;
    }
    return true;
  }

  static double rise_of(int distance) { return kArchRise * (0.6 + 0.6 * distance); }
  static double middle_of(size_t worker) {
    return static_cast<double>(worker) * (kWorkerBox + kWorkerGap) + kWorkerGap / 2 +
           kWorkerBox / 2;
  }

  void box(size_t worker, double y, double height) {
    const double x = middle_of(worker) - kWorkerBox / 2;
    svg_.rectangle({x, y}, kWorkerBox, height, 6, "var(--box)", "var(--grid)");
    svg_.text({x + 10, y + 20}, "name", "start", format("worker {}", worker));
    double line = y + 20;
    const std::vector<size_t>& mine = stages_[worker];
    for (size_t i = 0; i < mine.size(); ++i) {
      line += kStageLine;
      if (i == kMostStages) {
        svg_.text({x + 10, line}, "small", "start", format("and {} more", mine.size() - i));
        break;
      }
      const PlanRecord::Stage& stage = plan_.stages[mine[i]];
      std::string names;
      for (const std::string& node : stage.nodes) names += node + " ";
      svg_.open_group(names);
      svg_.text({x + 10, line}, "small", "start",
                format("stage {}: {}", mine[i],
                       plural(static_cast<long long>(stage.nodes.size()), "operator")));
      svg_.close_group();
    }
  }

  // Forth a little left of the middle, back a little right of it.
  void edge(const Key& key, int64_t bytes, double top, double height) {
    const bool forth = key.to > key.from;
    const double shift = forth ? 14 : -14;
    const double from = middle_of(static_cast<size_t>(key.from)) + shift;
    const double to = middle_of(static_cast<size_t>(key.to)) - shift;
    const double rise = rise_of(std::abs(key.to - key.from)) * (key.gradient ? -1 : 1);
    const double y = key.gradient ? top + height : top;
    const std::string words = human_bytes(static_cast<double>(bytes));
    svg_.open_group(format("{} from worker {} to worker {}: {} a step",
                           key.gradient ? "gradients" : "values", key.from, key.to, words));
    svg_.arch({from, y}, {to, y}, rise, "bridge",
              key.gradient ? "var(--inputs)" : "var(--forward)");
    // The cubic's middle lies at three quarters of its handles; who goes back is labelled further
    // in.
    const double label = y - rise * (forth ? 0.75 : 0.45) + (key.gradient ? 14 : -6);
    svg_.text({(from + to) / 2, label}, "bytes", "middle", words);
    svg_.close_group();
  }

  const PlanRecord& plan_;
  std::vector<std::vector<size_t>> stages_;  // by worker
  std::map<Key, int64_t> bytes_;
  int farthest_ = 1;
  partitioner::Svg svg_;
};

}  // namespace

std::string draw_cut(const PlanRecord& plan) { return CutPicture(plan).draw(); }

}  // namespace kerf::apps
