#include "partitioner/picture_colours.h"

#include <algorithm>
#include <array>

namespace kerf::partitioner {

namespace {

// Told apart by hue and, in print or with colour blindness, by lightness too.
constexpr std::array<PictureColour, 8> kOfWorkers = {{{"#d9e8fb", "#2f6fbf"},
                                                      {"#fde3c8", "#c76a12"},
                                                      {"#d5f0e0", "#1e8a57"},
                                                      {"#f8d8e4", "#b63a6f"},
                                                      {"#e5dcf7", "#6b4bb8"},
                                                      {"#fbf0bf", "#9c7c00"},
                                                      {"#cfeef2", "#14808f"},
                                                      {"#e6e2dc", "#6d5f4b"}}};
// Darker, for no group is to be taken for one of its workers.
constexpr std::array<PictureColour, 6> kOfGroups = {{{"#bac7d5", "#3d5064"},
                                                     {"#dcc7a9", "#7a5520"},
                                                     {"#bcd3ac", "#4c7030"},
                                                     {"#d0b8cc", "#71406a"},
                                                     {"#aed2ca", "#1f6a5c"},
                                                     {"#e2bab1", "#8c3b2b"}}};

constexpr size_t kMostListed = 6;  // numbers, one by one

std::vector<int> workers_of(const Plan& plan, const Stage& stage, int replica) {
  std::vector<int> workers;
  for (const int part : stage.parts)
    if (plan.division.replica_of(part) == replica)
      workers.push_back(plan.binding[static_cast<size_t>(part)]);
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  return workers;
}

// "0", "0-3", "0, 2, 5", and of many "0, 2, .. 30".
std::string numbers_text(const std::vector<int>& numbers) {
  if (numbers.size() > 2 && numbers.back() - numbers.front() + 1 == std::ssize(numbers))
    return format("{}-{}", numbers.front(), numbers.back());
  if (numbers.size() <= kMostListed) return format("{}", fmt::join(numbers, ", "));
  return format("{}, {}, .. {}", numbers[0], numbers[1], numbers.back());
}

std::string named(std::string_view noun, const std::vector<int>& numbers) {
  return format("{}{} {}", noun, numbers.size() == 1 ? "" : "s", numbers_text(numbers));
}

}  // namespace

PictureColours::PictureColours(const Plan& plan) : replica_parts_(plan.division.replica_parts) {
  std::map<std::vector<int>, std::vector<std::pair<int, int>>> found;  // workers -> stage, replica
  for (int stage = 0; stage < std::ssize(plan.stages); ++stage)
    for (int replica = 0; replica < plan.replicas(); ++replica)
      found[workers_of(plan, plan.stages[static_cast<size_t>(stage)], replica)].push_back(
          {stage, replica});
  found.erase(std::vector<int>());  // of a stage of nothing
  size_t groups = 0;
  for (const auto& [workers, places] : found) {
    ColouredWorkers& entry = all_.emplace_back();
    entry.workers = workers;
    for (const auto& [stage, replica] : places) {
      if (entry.stages.empty() || entry.stages.back() != stage) entry.stages.push_back(stage);
      index_[{stage, replica}] = all_.size() - 1;
    }
    entry.colour = workers.size() == 1
                       ? kOfWorkers[static_cast<size_t>(workers.front()) % kOfWorkers.size()]
                       : kOfGroups[groups++ % kOfGroups.size()];
  }
}

std::string legend_text(const ColouredWorkers& coloured) {
  return format("{}: {}", named("worker", coloured.workers), named("stage", coloured.stages));
}

}  // namespace kerf::partitioner
