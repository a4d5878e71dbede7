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
  BytesToGo to_go(int stages, double price) const {
    return {units, ideals, facts, left, {stages, price, false}};
  }

  // Of so many stages behind an ideal, none of more work than the price: tried one by one.
  double least_behind(int begin, int stages, double price) const {
    if (stages == 0) return begin + 1 == ideals.size() ? 0 : kNever;
    double least = kNever;
    for (int end = begin + 1; end < ideals.size(); ++end)
      if (has_all(end, begin) && left[at(begin)] - left[at(end)] <= price * (1 + 1e-12))
        least = std::min(least, bytes(begin, end) + least_behind(end, stages - 1, price));
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
  for (int round = 0; round < 16; ++round) {
    const Searched all(testing::random_graph(random, {.nodes = 8, .shared = round % 2 == 0}));
    for (const int stages : {2, 3, 4})
      for (const double slack : {1.1, 1.5}) {
        const double price = slack * all.left.front() / stages;
        const BytesToGo to_go = all.to_go(stages, price);
        for (int ideal = 0; ideal < all.ideals.size(); ++ideal)
          for (int stage = 0; stage < stages; ++stage) {
            const double least = all.least_behind(ideal, stages - stage, price);
            const double behind = to_go.behind(ideal, stage);
            if (least == kNever) continue;
            EXPECT_LE(all.facts.alive[at(ideal)] + behind, least + 1e-9)
                << "round " << round << ", stage " << stage << " of " << stages;
            if (behind > 0) ++known;
          }
      }
  }
  EXPECT_GT(known, 300);
}

// Between all of its layers it sends as much, and none of its stages is to have much less work.
TEST(BytesToGo, AreThoseOfAChainOfLayersThatAreAlike) {
  const Model model = make_zoo_model("mlp", {std::vector<int64_t>(33, 64)});
  const Searched all(cost_graph_of(model, testing::request_of(Cut::kLayer, 4)));
  const double price = 1.05 * all.left.front() / 4;
  EXPECT_NEAR(all.to_go(4, price).behind(0, 0), all.least_behind(0, 4, price), 1e-3);
}

}  // namespace
}  // namespace kerf::partitioner
