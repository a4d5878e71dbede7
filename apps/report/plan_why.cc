#include "apps/report/plan_why.h"

#include <algorithm>
#include <cmath>

#include "apps/report/few_names.h"
#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "partitioner/fitted_text.h"
#include "runtime/format.h"

namespace kerf::apps {

using partitioner::Boundary;
using partitioner::BoundaryMove;
using partitioner::Model;
using partitioner::NodeId;
using partitioner::Plan;
using partitioner::PlanFigures;

namespace {

constexpr size_t kFewNames = 3;      // short ones
constexpr size_t kNameLetters = 28;  // of one

// In a line's room.
std::string few_short_of(std::vector<std::string> names) {
  for (std::string& name : names) name = partitioner::elided(in_line(name), kNameLetters);
  return few_of(names, {kFewNames, kNameLetters});
}

std::vector<std::string> names_of_nodes(const Model& model, const std::vector<NodeId>& nodes) {
  std::vector<std::string> names;
  for (const NodeId node : nodes) names.push_back(model.node(node).name);
  return names;
}
std::vector<std::string> names_of_crossing(const Model& model, const Boundary& boundary) {
  std::vector<std::string> names;
  for (const partitioner::ValueId value : boundary.crossing)
    names.push_back(model.value(value).name);
  return names;
}

std::string price_text(const Plan& plan, double price) {
  const bool flops = plan.request && plan.request->minimise == partitioner::Minimise::kForwardFlops;
  return flops ? human_flops(price) : human_seconds(price);
}

// "+64.1 %"; nothing where it is the same.
std::string change_text(double now, double then) {
  const double change = now > 0 ? then / now - 1 : 0;
  if (std::abs(change) < 0.0005) return "";
  return format("{}{}", change > 0 ? "+" : "-", human_percent(std::abs(change)));
}

std::vector<std::string> row_of(const Plan& plan, const PlanFigures& now, const std::string& what,
                                const PlanFigures& then) {
  return {what, price_text(plan, then.bottleneck), change_text(now.bottleneck, then.bottleneck),
          bytes_text(then.cut_bytes), bytes_text(then.peak_bytes)};
}

}  // namespace

std::string why_text(const Model& model, const Plan& plan, const std::vector<Boundary>& boundaries,
                     bool colour) {
  if (boundaries.empty()) return "\nthere is no boundary: the plan has one stage\n";
  const PlanFigures now = partitioner::figures_of(model, plan);
  Table table({"boundary", "slowest worker", "change", "forward bytes", "fullest worker"});
  table.add(row_of(plan, now, "as it is", now));
  std::string fixed;
  for (const Boundary& boundary : boundaries) {
    const std::string name = format("{} | {}", boundary.before, boundary.before + 1);
    for (const BoundaryMove& move : boundary.moves)
      table.add(row_of(plan, now,
                       format("{}: {} to stage {}", name,
                              few_short_of(names_of_nodes(model, move.nodes)), move.to),
                       move.then));
    for (const std::string& why : boundary.fixed) fixed += format("{}: {}\n", name, why);
  }
  std::string text = "\n";
  for (const Boundary& boundary : boundaries)
    text += format("{} | {}: {} of {} cross it\n", boundary.before, boundary.before + 1,
                   bytes_text(boundary.bytes), few_short_of(names_of_crossing(model, boundary)));
  return text + "\n" + table.text(colour) + fixed;
}

Json why_json(const Model& model, const std::vector<Boundary>& boundaries) {
  Json list = Json::array();
  for (const Boundary& boundary : boundaries) {
    Json moves = Json::array();
    for (const BoundaryMove& move : boundary.moves)
      moves.push_back({{"operators", names_of_nodes(model, move.nodes)},
                       {"to", move.to},
                       {"bottleneck", move.then.bottleneck},
                       {"cut_bytes", move.then.cut_bytes},
                       {"peak_bytes", move.then.peak_bytes}});
    list.push_back({{"before", boundary.before},
                    {"after", boundary.before + 1},
                    {"crossing", names_of_crossing(model, boundary)},
                    {"bytes", boundary.bytes},
                    {"moves", moves},
                    {"fixed", boundary.fixed}});
  }
  return list;
}

}  // namespace kerf::apps
