// A step on late devices whose messages go over what connects processes: nothing leaves before it
// is written, no slot comes back before it is read, and nothing stays behind when the step is over.
#include "tests/schedmp/scene.h"
#include "tests/support/seeds.h"

namespace kerf::schedmp {
namespace {

using runtime::TransportKind;
using tests::AsyncWorld;
using tests::CrewStep;

class AsyncLinks : public ::testing::TestWithParam<std::tuple<TransportKind, int>> {};

TEST_P(AsyncLinks, HaveTheBitsOfTheCpu) {
  const auto [transport, seed] = GetParam();
  const Scene scene = random_scene(seed);
  const CrewStep cpu = scene.run({});
  const auto world = std::make_shared<AsyncWorld>(static_cast<uint64_t>(seed));
  const CrewStep late = scene.run({.transport = transport, .world = world});
  EXPECT_THAT(world->reports(), ::testing::IsEmpty());
  EXPECT_EQ(late.loss, cpu.loss);
  EXPECT_EQ(late.traffic, cpu.traffic);
  ASSERT_EQ(late.weights.size(), cpu.weights.size());
  for (size_t i = 0; i < cpu.weights.size(); ++i)
    EXPECT_TRUE(late.weights[i].bytes == cpu.weights[i].bytes) << cpu.weights[i].name;
}

INSTANTIATE_TEST_SUITE_P(Over, AsyncLinks,
                         ::testing::Combine(::testing::Values(TransportKind::kShm,
                                                              TransportKind::kIpc,
                                                              TransportKind::kTcp),
                                            tests::seeds(1, 8)));

}  // namespace
}  // namespace kerf::schedmp
