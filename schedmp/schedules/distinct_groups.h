// The groups of a pipeline, each once: their workers act as one, and each has some of the stages.
// What schedules are made of that go by place: group g of p, chunk k of its stages.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "schedmp/schedules.h"

namespace kerf::schedmp {

struct DistinctGroups {
  std::vector<std::vector<int>> workers;  // by group, numbered as their first stages come
  std::vector<std::vector<int>> stages;   // by group, ascending: its chunks
  std::vector<int> of_stage;

  int count() const { return static_cast<int>(workers.size()); }
};

// Throws Error{kUsage} that names the schedule where groups share workers and are not equal.
DistinctGroups distinct_groups(const std::string& schedule, const Pipeline& pipeline);
// Those, placed as the shape says, with as many chunks each as it allows; throws what is wrong.
DistinctGroups placed_groups(const Shape& shape, const std::string& schedule,
                             const Pipeline& pipeline);

// The rows of groups, each taken by all of its workers, and the updates of its stages at its end.
Schedule with_rows(const std::string& name, const Pipeline& pipeline, const DistinctGroups& groups,
                   int micro_batches, const std::vector<std::vector<Action>>& rows);

// Writes a group's row action by action, each stage's micro-batches in their order. Of those from
// `micro_batches` on nothing is written: a schedule for more of them, less the last, is one.
class RowWriter {
 public:
  explicit RowWriter(int micro_batches) : micro_batches_(micro_batches) {}

  // The stage's micro-batches, where they are not 0, 1, 2 and so on.
  void number(int stage, std::vector<int> micro_batches) {
    numbers_[stage] = std::move(micro_batches);
  }
  void forward(int stage) { add(stage, ActionKind::kForward, of(stage).forward); }
  void input_gradient(int stage) { add(stage, ActionKind::kInputGradient, of(stage).gradient); }
  void weight_gradient(int stage) { add(stage, ActionKind::kWeightGradient, of(stage).weights); }
  void backward(int stage) {
    ++of(stage).weights;
    add(stage, ActionKind::kBackward, of(stage).gradient);
  }
  // Micro-batches so far, those that are not written too.
  int forwards(int stage) { return of(stage).forward; }
  int weight_gradients(int stage) { return of(stage).weights; }

  std::vector<Action> take() { return std::move(row_); }

 private:
  struct Counts {
    int forward = 0;
    int gradient = 0;
    int weights = 0;
  };
  Counts& of(int stage) { return counts_[stage]; }
  void add(int stage, ActionKind kind, int& count) {
    const auto numbers = numbers_.find(stage);
    const int number = count++;
    if (numbers == numbers_.end()) {
      if (number < micro_batches_) row_.push_back({stage, kind, number});
    } else if (number < static_cast<int>(numbers->second.size())) {
      row_.push_back({stage, kind, numbers->second[static_cast<size_t>(number)]});
    }
  }

  int micro_batches_;
  std::unordered_map<int, Counts> counts_;             // by stage
  std::unordered_map<int, std::vector<int>> numbers_;  // likewise
  std::vector<Action> row_;
};

}  // namespace kerf::schedmp
