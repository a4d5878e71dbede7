// What stages to come bring in at the least is no more than what any of them do.
#include "partitioner/cuts/bytes_to_go.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partitioner/at.h"
#include "partitioner/cuts/trees.h"
#include "partitioner/model_graph.h"
#include "tests/partitioner/random_graphs.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

constexpr size_t kMostIdeals = 10'000;

struct Searched {
  explicit Searched(const CostGraph& graph)
      : units(units_of(graph)),
        ideals(Ideals::of(units, kMostIdeals).value()),
        facts(units, ideals) {
    for (int ideal = 0; ideal < ideals.size(); ++ideal) {
      std::vector<bool>& has = members.emplace_back(at(units.size()));
      double lacks = 0;
      for (const int unit : ideals.units_in(ideal)) has[at(unit)] = true;
      for (int unit = 0; unit < units.size(); ++unit)
        if (!has[at(unit)]) lacks += units.work[0][at(unit)];
      left.push_back(lacks);
    }
  }
  BytesToGo to_go(const BytesToGo::Task& task) const { return {units, ideals, facts, left, task}; }

  // Of the stages behind an ideal, none of more work than the price: tried one by one.
  double least_behind(int begin, const BytesToGo::Task& task, int stage) const {
    if (stage == task.stages) return begin + 1 == ideals.size() ? 0 : kNever;
    double least = kNever;
    for (int end = begin + 1; end < ideals.size(); ++end) {
      if (task.keep_close && facts.parted[at(end)]) continue;
      if (has_all(end, begin) && left[at(begin)] - left[at(end)] <= task.price * (1 + 1e-12))
        least = std::min(least, bytes(begin, end) + least_behind(end, task, stage + 1));
    }
    return least;
  }

  const Units units;
  const Ideals ideals;
  const IdealFacts facts;
  std::vector<std::vector<bool>> members;
  std::vector<double> left;

 private:
  bool has_all(int ideal, int of) const {
    for (size_t unit = 0; unit < members[at(of)].size(); ++unit)
      if (members[at(of)][unit] && !members[at(ideal)][unit]) return false;
    return true;
  }
  // That enter a stage.
  double bytes(int begin, int end) const {
    double sum = 0;
    for (const UnitValue& value : units.values)
      if (members[at(begin)][at(value.producer)] &&
          std::any_of(value.readers.begin(), value.readers.end(), [&](int reader) {
            return members[at(end)][at(reader)] && !members[at(begin)][at(reader)];
          }))
        sum += value.bytes;
    return sum;
  }
};

TEST(BytesToGo, AreNoMoreThanThoseOfAnyStages) {
  std::mt19937 random(11);
  int known = 0;
  int more_where_close = 0;
  for (int round = 0; round < 16; ++round) {
    const Searched all(
        testing::random_graph(random, {.nodes = 8, .shared = round % 2 == 0, .close = true}));
    for (const int stages : {2, 3, 4})
      for (const double slack : {1.1, 1.5}) {
        const double price = slack * all.left.front() / stages;
        const BytesToGo::Task close{stages, price, true};
        const BytesToGo::Task any{stages, price, false};
        for (const BytesToGo::Task& task : {close, any}) {
          const BytesToGo to_go = all.to_go(task);
          for (int ideal = 0; ideal < all.ideals.size(); ++ideal)
            for (int stage = 0; stage < stages; ++stage) {
              const double least = all.least_behind(ideal, task, stage);
              const double behind = to_go.behind(ideal, stage);
              if (least == kNever) continue;
              EXPECT_LE(all.facts.alive[at(ideal)] + behind, least + 1e-9)
                  << "round " << round << ", stage " << stage << " of " << stages;
              known += behind > 0 ? 1 : 0;
            }
        }
        if (all.to_go(close).behind(0, 0) > all.to_go(any).behind(0, 0)) ++more_where_close;
      }
  }
  EXPECT_GT(known, 500);
  EXPECT_GT(more_where_close, 3);
}

// Between all of its layers it sends as much, and none of its stages is to have much less work.
TEST(BytesToGo, AreThoseOfAChainOfLayersThatAreAlike) {
  const Model model = make_zoo_model("mlp", {std::vector<int64_t>(33, 64)});
  const Searched all(cost_graph_of(model, testing::request_of(Cut::kLayer, 4)));
  const BytesToGo::Task task{4, 1.05 * all.left.front() / 4, false};
  EXPECT_NEAR(all.to_go(task).behind(0, 0), all.least_behind(0, task, 0), 1e-3);
}

}  // namespace
}  // namespace kerf::partitioner
