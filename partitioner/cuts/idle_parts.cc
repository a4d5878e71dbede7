#include "partitioner/cuts/idle_parts.h"

#include <algorithm>

#include "partitioner/at.h"

namespace kerf::partitioner {
namespace {

bool has_a_copy(const ops::Layout& layout, const ops::Share& share) {
  return std::ranges::any_of(layout.shares, [&](const ops::Share& other) {
    return other.part != share.part && other.box == share.box;
  });
}

// Of copies that only idle parts have, somebody's is needed.
void give_copies_to_first(const ops::Layout& layout, std::vector<bool>& busy) {
  for (auto share = layout.shares.begin(); share != layout.shares.end(); ++share) {
    const auto is_cared_for = [&](const ops::Share& other) {
      return other.box == share->box && busy[at(other.part)];
    };
    if (std::ranges::none_of(layout.shares, is_cared_for)) busy[at(share->part)] = true;
  }
}

}  // namespace

std::vector<int> idle_parts(const Model& model, const PlanRequest& request,
                            const Division& division) {
  std::vector<bool> busy(at(request.workers));
  std::vector<bool> has_copies(busy.size());
  const bool copies_are_asked = !request.shares.empty();
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const ops::Layout& layout = division.nodes[at(node)];
    const bool loss = model.op(node).is_loss();
    for (const ops::Share& share : layout.shares) {
      if (busy[at(share.part)] || (loss && !has_copies[at(share.part)])) continue;
      busy[at(share.part)] = copies_are_asked || !has_a_copy(layout, share);
      has_copies[at(share.part)] = true;
    }
  }
  if (std::ranges::count(busy, false) == 0) return {};
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (!model.op(node).is_loss()) give_copies_to_first(division.nodes[at(node)], busy);
  std::vector<int> idle;
  for (int part = 0; part < request.workers; ++part)
    if (!busy[at(part)]) idle.push_back(part);
  return idle;
}

bool has_a_slow_device(const PlanRequest& request, int part, const std::vector<int>& group) {
  const std::vector<double> speeds = request.speeds_of_parts();
  return !speeds.empty() && std::ranges::any_of(group, [&](int other) {
    return speeds[at(other)] > speeds[at(part)];
  });
}

std::string without_idle(const PlanRequest& request, const std::vector<int>& idle) {
  const auto left = request.workers - static_cast<int>(idle.size());
  if (request.speed.capacities.empty()) return format("use --workers {} or fewer", left);
  const std::string who = idle.size() == 1 ? "it" : format("workers {}", fmt::join(idle, ", "));
  return format("leave {} out of --devices{}, with --workers {}", who,
                idle.front() < left ? " and number the others from 0" : "", left);
}

void refuse_idle(const PlanRequest& request, int part, const std::string& reason) {
  throw Error(ErrorCode::kInfeasible,
              format("{} workers, but worker {} would have nothing to compute: {}", request.workers,
                     part, reason));
}

}  // namespace kerf::partitioner
