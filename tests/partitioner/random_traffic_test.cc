// What random layer cuts send, counted by plain loops over the model: a value goes once to each
// stage that reads it, and from each that adds to its gradient one sum comes back.
//
// KERF_SEEDS=FIRST-LAST in the environment chooses other seeds: the long sweep does.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/partitioner/random_models.h"
#include "tests/support/seeds.h"

namespace kerf::partitioner {
namespace {

// (value, whether its gradient, stage at the other end) -> messages and bytes of a step.
using Crossings = std::map<std::tuple<ValueId, bool, int>, Traffic>;

void add(Crossings& to, ValueId value, bool gradient, int stage, const Traffic& traffic) {
  Traffic& sum = to[{value, gradient, stage}];
  sum.messages += traffic.messages;
  sum.bytes += traffic.bytes;
}

// Of activations, as the plan's routes carry them.
Crossings predicted(const Model& model, const Plan& plan, int64_t batch) {
  Crossings result;
  const std::vector<int> stage_of = stages_of_parts(plan);
  const std::vector<Traffic> traffic = predict_traffic(model, plan, batch);
  for (const Route& route : plan.routes) {
    if (is_of_step(model, route)) continue;
    const int reader = route.gradient ? route.from : route.to;
    add(result, route.value, route.gradient, stage_of[static_cast<size_t>(reader)],
        traffic[static_cast<size_t>(route.id)]);
  }
  return result;
}

// How often a stage reads a value.
int64_t uses_in(const Model& model, const Plan& plan, ValueId value, int stage) {
  const auto& uses = model.uses(value);
  return std::count_if(uses.begin(), uses.end(),
                       [&](const Use& use) { return plan.stage_of(use.node) == stage; });
}

// Terms are added in reverse model order. Where that is from the last stage to the first, each
// stage adds all of its own before it sends; else terms of other stages may have to come between
// them.
bool sums_run_backwards(const Model& model, const Plan& plan, ValueId value) {
  const auto& uses = model.uses(value);
  return std::is_sorted(uses.begin(), uses.end(), [&](const Use& a, const Use& b) {
    return plan.stage_of(a.node) < plan.stage_of(b.node);
  });
}

void expect_counted(const Model& model, const Plan& plan, int64_t batch) {
  Crossings found = predicted(model, plan, batch);
  for (ValueId value = 0; value < model.values(); ++value) {
    if (model.value(value).producer < 0) continue;
    std::set<int> readers;
    for (const Use& use : model.uses(value)) readers.insert(plan.stage_of(use.node));
    readers.erase(plan.stage_of(model.value(value).producer));
    Traffic whole;
    for (const int64_t samples : plan.sizes().of(batch)) {
      const ops::Shape shape = model.value(value).spec.shape.with_batch(samples);
      int64_t bytes = static_cast<int64_t>(ops::size_of(model.value(value).spec.dtype));
      for (const int64_t extent : shape) bytes *= extent;
      whole.bytes += bytes;
      ++whole.messages;
    }
    for (const int reader : readers) {
      SCOPED_TRACE(format("{} to stage {}", model.value(value).name, reader));
      EXPECT_EQ(found[std::tuple(value, false, reader)], whole);
      found.erase({value, false, reader});
      const Traffic back = found[std::tuple(value, true, reader)];
      found.erase({value, true, reader});
      if (!model.needs_gradient(value)) {
        EXPECT_EQ(back, Traffic{});
      } else {
        const int64_t most =
            sums_run_backwards(model, plan, value) ? 1 : uses_in(model, plan, value, reader);
        EXPECT_GE(back.bytes, whole.bytes);
        EXPECT_LE(back.bytes, most * whole.bytes);
        EXPECT_GE(back.messages, whole.messages);
        EXPECT_LE(back.messages, most * whole.messages);
      }
    }
  }
  EXPECT_THAT(found, ::testing::IsEmpty()) << "and nothing else crosses";
}

class RandomTraffic : public ::testing::TestWithParam<int> {};

TEST_P(RandomTraffic, OfLayerCutsIsWhatPlainLoopsCount) {
  Random random(static_cast<Random::result_type>(GetParam()));
  for (const Family family : {Family::kExact, Family::kScaled})
    for (int round = 0; round < 5; ++round) {
      const Model model = random_net(family, random);
      Placing placing{.workers = 1 + draw(random, 4), .stages = 6, .divides = false};
      if (round % 2 == 1) placing.give_sizes(random);
      const Plan plan = random_plan(model, placing, random);
      expect_counted(model, plan, plan.batch);
      expect_counted(model, plan, 2);  // some micro-batches are empty
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTraffic, tests::seeds(1, 12));

}  // namespace
}  // namespace kerf::partitioner
