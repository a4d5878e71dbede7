#include "partitioner/cuts/ways.h"

#include <numeric>

#include "partitioner/cuts/feature_patterns.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/rewrite.h"

namespace kerf::partitioner {
namespace {

class Ways {
 public:
  Ways(const Model& model, const PlanRequest& request, bool rewriting)
      : model_(model),
        rewriting_(rewriting),
        largest_(request.largest_micro_batch()),
        parts_(static_cast<size_t>(request.workers)),
        way_(static_cast<size_t>(model.nodes())) {
    std::iota(parts_.begin(), parts_.end(), 0);
    for (NodeId node = 0; node < model.nodes(); ++node)
      if (is_one_to_all(model, node)) way_of(node) = request.steering.others;
    for (const WayRule& rule : request.steering.ways) {
      if (worker_of_whole(rule.way) >= request.workers)
        throw Error(ErrorCode::kUsage,
                    format("{}={}: there is no such worker; they are numbered 0 to {}",
                           rule.pattern, rule.way, request.workers - 1),
                    "--way");
      for (const NodeId node : nodes_that_fit(model, rule.pattern, "--way"))
        way_of(node) = rule.way;
    }
  }

  std::optional<ops::Layout> division_of(NodeId node) {
    const std::string& way = way_of(node);
    if (way == "batch") return by_sample(node);
    if (way == "feature") return by_feature(node);
    if (const int worker = worker_of_whole(way); worker >= 0)
      return whole_division(model_, node, worker);
    return std::nullopt;
  }

 private:
  std::string& way_of(NodeId node) { return way_[static_cast<size_t>(node)]; }

  [[noreturn]] void refuse(NodeId node, const char* how, const std::string& why) const {
    throw Error(ErrorCode::kUsage,
                format("{} cannot be divided by {}: {}; give it another --way",
                       model_.node(node).op, how, why),
                format("{}: node {}", model_.name(), model_.node(node).name));
  }

  ops::Layout by_sample(NodeId node) const {
    const ops::IterationSpace space =
        rewriting_ ? space_with_rewrites(model_.node(node)) : model_.op(node).space();
    ops::Layout layout = divide_by_samples(space, parts_, largest_);
    for (const ops::Share& share : layout.shares)
      if (const std::string why = ops::check_iterations(space, share.box, largest_); !why.empty())
        refuse(node, "sample", why);
    return layout;
  }

  std::optional<ops::Layout> by_feature(NodeId node) {
    if (!is_one_to_all(model_, node) && follows_features(node)) return std::nullopt;
    if (divisible_features(model_, node) < 0)
      refuse(node, "feature", "it has no features that could be apart");
    return divided_features(model_, node, parts_, [&](int64_t units) {
      return ops::split_evenly(units, static_cast<int>(parts_.size()));
    });
  }

  // Whether what it reads is divided by feature, so that following it is that too; moving data
  // about can do nothing else.
  bool follows_features(NodeId node) {
    if (model_.op(node).aliases() || model_.op(node).is_loss()) return true;
    for (const ValueId input : model_.node(node).inputs) {
      const NodeId producer = input < 0 ? -1 : model_.value(input).producer;
      if (producer < 0) continue;
      const std::string& way = way_of(producer);
      if (way == "feature") return true;
      if (!way.empty()) return false;
      return is_one_to_all(model_, producer) || follows_features(producer);
    }
    return false;
  }

  const Model& model_;
  const bool rewriting_;
  const int64_t largest_;
  std::vector<int> parts_;
  std::vector<std::string> way_;  // by node; empty: it follows
};

}  // namespace

std::vector<std::optional<ops::Layout>> divided_by_ways(const Model& model,
                                                        const PlanRequest& request,
                                                        bool rewriting) {
  Ways ways(model, request, rewriting);
  std::vector<std::optional<ops::Layout>> divisions;
  for (NodeId node = 0; node < model.nodes(); ++node) divisions.push_back(ways.division_of(node));
  return divisions;
}

}  // namespace kerf::partitioner
