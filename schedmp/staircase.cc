#include "schedmp/staircase.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/format.h"
#include "schedmp/idle_share.h"

namespace kerf::schedmp {

using partitioner::StageGraph;

namespace {

struct Scale {
  double unit = std::numeric_limits<double>::infinity();  // of the shortest action
  size_t width = 1;                                       // of the longest text in it

  size_t column(double time) const {
    return static_cast<size_t>(std::lround(time / unit * static_cast<double>(width + 1)));
  }
};

Scale scale_of(const Schedule& schedule, const Unfolded& unfolded) {
  Scale scale;
  for (size_t worker = 0; worker < unfolded.rows.size(); ++worker)
    for (size_t i = 0; i < unfolded.rows[worker].size(); ++i) {
      const Interval& each = unfolded.rows[worker][i];
      if (each.end <= each.begin) continue;
      scale.width = std::max(scale.width, to_string(schedule.rows[worker][i]).size());
      scale.unit = std::min(scale.unit, each.end - each.begin);
    }
  if (std::isinf(scale.unit)) scale.unit = 1;
  return scale;
}

}  // namespace

double staircase_columns(const Schedule& schedule, const Unfolded& unfolded) {
  const Scale scale = scale_of(schedule, unfolded);
  double end = 0;
  for (const auto& row : unfolded.rows)
    if (!row.empty()) end = std::max(end, row.back().end);
  return end / scale.unit * static_cast<double>(scale.width + 1);
}

std::string draw_staircase(const Schedule& schedule, const StageGraph& graph,
                           const ActionCosts& costs) {
  return draw_staircase(schedule, unfold(schedule, graph, costs));
}

std::string draw_staircase(const Schedule& schedule, const Unfolded& unfolded) {
  const Scale scale = scale_of(schedule, unfolded);
  std::string text;
  for (size_t worker = 0; worker < unfolded.rows.size(); ++worker) {
    const std::string head = kerf::format("worker {:<3}", worker);
    std::string line;
    for (size_t i = 0; i < unfolded.rows[worker].size(); ++i) {
      const Interval& each = unfolded.rows[worker][i];
      line.resize(std::max(line.size(), scale.column(each.begin)), ' ');
      line += to_string(schedule.rows[worker][i]) + " ";
      line.resize(std::max(line.size(), scale.column(each.end)), ' ');
    }
    line.insert(0, head);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Bubble bubble(const Schedule& schedule, const Unfolded& unfolded) {
  Bubble idle;
  double longest_span = 0, most_work = 0, work = 0;
  for (size_t worker = 0; worker < unfolded.rows.size(); ++worker) {
    double begin = -1, end = 0, own = 0;
    for (size_t i = 0; i < unfolded.rows[worker].size(); ++i) {
      if (schedule.rows[worker][i].micro_batch < 0) continue;
      const Interval& each = unfolded.rows[worker][i];
      if (begin < 0) begin = each.begin;
      end = each.end;
      own += each.end - each.begin;
    }
    idle.makespan = std::max(idle.makespan, end);
    longest_span = std::max(longest_span, end - std::max(begin, 0.0));
    most_work = std::max(most_work, own);
    work += own;
  }
  if (idle.makespan == 0) return idle;
  idle.step = idle_share(work / static_cast<double>(unfolded.rows.size()), idle.makespan);
  idle.span = idle_share(most_work, longest_span);
  return idle;
}

Bubble bubble(const Schedule& schedule, const StageGraph& graph, const ActionCosts& costs) {
  return bubble(schedule, unfold(schedule, graph, costs));
}

}  // namespace kerf::schedmp
