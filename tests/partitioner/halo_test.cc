// LRN over divided channels: a part needs its window's channels of its neighbours, and nothing
// else of them; their gradients go back the same way. In both formats of images.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>

#include "partitioner/builder.h"
#include "partitioner/channels_last.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner {
namespace {

constexpr int64_t kNormalised = 14;

//   image ── conv1 ── relu1 ── norm1 (a window of `size`) ── pool1 ── flatten ── fc ── loss
Model normalised_by_neighbours(int64_t size, bool last) {
  Builder b("neighbours");
  const ValueId image = b.input("image", {ops::kBatch, 1, 6, 6});
  const ValueId lower = b.relu(b.conv(image, kNormalised, 3, 1, 1, "conv1"), "relu1");
  const ValueId norm = b.node("LRN", {lower}, {{"size", size}, {"alpha", 0.5}}, "norm1");
  b.loss(b.gemm(b.flatten(b.max_pool(norm, 2, 2, "pool1"), "flatten"), 4, "fc"));
  return last ? channels_last(b.build()) : b.build();
}

class LrnHalo : public ::testing::TestWithParam<std::tuple<int64_t, bool, int>> {};

TEST_P(LrnHalo, IsWhatCrossesThereAndBack) {
  const auto [size, last, workers] = GetParam();
  const Model model = normalised_by_neighbours(size, last);
  const Plan plan = plan_of(model, Cut::kFeature, workers);
  const size_t axis = last ? 3 : 1;
  // Which part holds a channel of what is normalised, and of what comes of it.
  const auto layouts = layouts_of(model, plan.division);
  const auto owner = [&](const char* value, int64_t channel) {
    for (const ops::Share& share : layouts[static_cast<size_t>(model.find_value(value))].shares)
      if (share.box.axes[axis].contains(channel)) return share.part;
    return -1;
  };
  // By holder and reader, channels of its windows.
  std::map<std::pair<int, int>, std::set<int64_t>> expected;
  for (int64_t c = 0; c < kNormalised; ++c)
    for (int64_t i = c - (size - 1) / 2; i <= c + size / 2; ++i)
      if (i >= 0 && i < kNormalised) {
        const int holder = owner("relu1.output", i);
        const int reader = owner("norm1.output", c);
        if (holder != reader) expected[{holder, reader}].insert(i);
      }
  EXPECT_FALSE(expected.empty());
  std::map<std::pair<int, int>, std::set<int64_t>> forward;
  std::map<std::pair<int, int>, std::set<int64_t>> backward;
  for (const Route& route : plan.routes) {
    if (value_name(model, route) != "relu1.output") continue;
    auto& crossing =
        route.gradient ? backward[{route.to, route.from}] : forward[{route.from, route.to}];
    for (const Piece& piece : route.pieces)
      for (const ops::Range& range : piece.box.axes[axis].ranges(kNormalised))
        for (int64_t c = range.begin; c < range.end; ++c) crossing.insert(c);
  }
  EXPECT_EQ(forward, expected);
  EXPECT_EQ(backward, expected);
  expect_close(run(model, plan), run(model, plan_of(model, Cut::kLayer, 1)), 1e-5F);
}

INSTANTIATE_TEST_SUITE_P(Windows, LrnHalo,
                         ::testing::Combine(::testing::Values(3, 4, 5, 9), ::testing::Bool(),
                                            ::testing::Values(2, 3, 4)));

}  // namespace
}  // namespace kerf::partitioner
