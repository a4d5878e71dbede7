#include "partitioner/cuts/ways.h"

#include <algorithm>

#include "partitioner/at.h"
#include "partitioner/cuts/feature_patterns.h"
#include "partitioner/cuts/features.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/fitted_text.h"
#include "partitioner/rewrite.h"

namespace kerf::partitioner {
namespace {

// What the rules say of each node.
class Rules {
 public:
  Rules(const Model& model, const PlanRequest& request)
      : model_(model), way_(at(model.nodes())), by_name_(at(model.nodes())) {
    for (NodeId node = 0; node < model.nodes(); ++node)
      if (is_one_to_all(model, node)) way_[at(node)] = request.steering.others;
    for (const WayRule& rule : request.steering.ways) {
      if (worker_of_whole(rule.way) >= request.workers)
        throw Error(ErrorCode::kUsage,
                    format("{}={}: there is no such worker; they are numbered 0 to {}",
                           elided(rule.pattern, kLettersTold), rule.way, request.workers - 1),
                    "--way");
      for (const NodeId node : nodes_that_fit(model, rule.pattern, "--way")) {
        way_[at(node)] = rule.way;
        by_name_[at(node)] = rule.pattern != "*";  // that speaks of whatever can be divided so
      }
    }
  }

  // Empty: it follows.
  const std::string& way(NodeId node) const { return way_[at(node)]; }
  // Whether a rule names it that has to be honoured.
  bool must(NodeId node, const char* way) const {
    return by_name_[at(node)] && way_[at(node)] == way && !model_.op(node).aliases();
  }
  [[noreturn]] void refuse(NodeId node, const char* how, const std::string& why) const {
    throw Error(ErrorCode::kUsage,
                format("{} cannot be divided by {}: {}; give it another --way",
                       model_.node(node).op, how, why),
                format("{}: node {}", model_.name(), model_.node(node).name));
  }

 private:
  const Model& model_;
  std::vector<std::string> way_;  // by node
  std::vector<bool> by_name_;     // by node: a rule for more than all
};

class Ways {
 public:
  Ways(const Model& model, const PlanRequest& request, bool rewriting)
      : model_(model),
        rewriting_(rewriting),
        largest_(request.largest_micro_batch()),
        parts_(all_parts(request)),
        speeds_(request.speeds_of_parts()),
        rules_(model, request) {}

  std::optional<ops::Layout> division_of(NodeId node) const {
    const std::string& way = rules_.way(node);
    if (way == "batch") return by_sample(node);
    if (way == "feature") return by_feature(node);
    if (const int worker = worker_of_whole(way); worker >= 0)
      return whole_division(model_, node, worker);
    return std::nullopt;
  }

 private:
  int parts() const { return static_cast<int>(parts_.size()); }
  ops::IterationSpace space_of(NodeId node) const {
    return rewriting_ ? space_with_rewrites(model_.node(node)) : model_.op(node).space();
  }

  ops::Layout by_sample(NodeId node) const {
    const ops::IterationSpace space = space_of(node);
    ops::Layout layout = divide_by_samples(space, parts_, largest_, speeds_);
    const auto has_samples = [](const ops::IterationAxis& axis) { return axis.extent < 0; };
    if (rules_.must(node, "batch") && parts() > 1 &&
        std::none_of(space.axes.begin(), space.axes.end(), has_samples))
      rules_.refuse(node, "sample", "it has no samples, so that every worker would do all of it");
    for (const ops::Share& share : layout.shares)
      if (const std::string why = ops::check_iterations(space, share.box, largest_); !why.empty())
        rules_.refuse(node, "sample", why);
    return layout;
  }

  std::optional<ops::Layout> by_feature(NodeId node) const {
    if (model_.op(node).aliases() || parts() < 2) return std::nullopt;
    const ops::IterationSpace& space = model_.op(node).space();
    if (feature_units(space, parts()) < 2 || model_.op(node).is_loss()) {
      if (!rules_.must(node, "feature")) return std::nullopt;
      const int axis = axis_by_rewrite(space_of(node), space);
      if (axis < 0) rules_.refuse(node, "feature", "it has no features that could be apart");
      return ops::Layout::split(parts_, static_cast<int>(space.axes.size()), axis,
                                shares_of(space.axes[at(axis)].extent, parts_, speeds_));
    }
    // That is how a one-to-all operator is divided where nothing is asked, in units of its readers.
    if (is_one_to_all(model_, node) || follows_features(node)) return std::nullopt;
    return divide_features(space, parts_, [&](int64_t units, std::span<const int> parts) {
      return shares_of(units, parts, speeds_);
    });
  }

  // Of what a row is normalised or summed over, where a rewrite divides it; -1 if none does.
  static int axis_by_rewrite(const ops::IterationSpace& rewritten, const ops::IterationSpace& own) {
    const auto of_batch = [](const ops::IterationAxis& axis) {
      return axis.extent < 0 && !axis.undivided.empty();
    };
    if (std::any_of(own.axes.begin(), own.axes.end(), of_batch)) return -1;
    for (size_t i = 0; i < own.axes.size(); ++i)
      if (own.axes[i].extent > 1 && !own.axes[i].undivided.empty() &&
          rewritten.axes[i].undivided.empty())
        return static_cast<int>(i);
    return -1;
  }

  // Whether what it reads is divided by feature, so that following it is that too; moving data
  // about can do nothing else.
  bool follows_features(NodeId node) const {
    for (const ValueId input : model_.node(node).inputs) {
      const NodeId producer = input < 0 ? -1 : model_.value(input).producer;
      if (producer < 0) continue;
      const std::string& way = rules_.way(producer);
      if (way == "feature") return true;
      if (!way.empty()) return false;
      return is_one_to_all(model_, producer) || follows_features(producer);
    }
    return false;
  }

  const Model& model_;
  const bool rewriting_;
  const int64_t largest_;
  const std::vector<int> parts_;
  const std::vector<double> speeds_;
  const Rules rules_;
};

bool divides_features(const ops::IterationSpace& space, const ops::Layout& layout) {
  for (const ops::Share& share : layout.shares)
    for (size_t i = 0; i < space.axes.size(); ++i)
      if (space.axes[i].kind == ops::AxisKind::kFeature && !share.box.axes[i].is_all()) return true;
  return false;
}

}  // namespace

std::vector<std::optional<ops::Layout>> divided_by_ways(const Model& model,
                                                        const PlanRequest& request,
                                                        bool rewriting) {
  const Ways ways(model, request, rewriting);
  std::vector<std::optional<ops::Layout>> divisions;
  for (NodeId node = 0; node < model.nodes(); ++node) divisions.push_back(ways.division_of(node));
  return divisions;
}

void check_ways(const Model& model, const PlanRequest& request, const Division& division) {
  if (request.workers < 2 || request.steering.ways.empty()) return;
  const Model& as_read = model.as_read();
  const Rules rules(as_read, request);
  for (NodeId node = 0; node < as_read.nodes(); ++node) {
    if (!rules.must(node, "feature")) continue;
    const auto rewritten = [&](const Rewrite& rewrite) {
      return rewrite.node == as_read.node(node).name;
    };
    if (std::any_of(model.rewrites().begin(), model.rewrites().end(), rewritten)) continue;
    const NodeId now = model.find_node(as_read.node(node).name);
    if (!divides_features(model.op(now).space(), division.nodes[at(now)]))
      rules.refuse(node, "feature", "what it reads is divided otherwise, which it follows");
  }
}

}  // namespace kerf::partitioner
