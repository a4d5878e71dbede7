// A step of workers on a GPU that the host plays, whose messages lie in memory of the host: kernels
// write and read them there.
#include "tests/schedmp/scene.h"
#include "tests/support/cuda_on_host/gpu.h"
#include "tests/support/seeds.h"

namespace kerf::schedmp {
namespace {

using runtime::TransportKind;
using tests::CrewStep;

class CudaLinks : public ::testing::TestWithParam<std::tuple<TransportKind, int>> {};

TEST_P(CudaLinks, HaveTheBitsOfOneProcess) {
  const auto [transport, seed] = GetParam();
  const Scene scene = random_scene(seed);
  const CrewStep near = scene.run({.device = "cuda:0"});
  tests::seed_gpu(static_cast<uint64_t>(seed));
  const CrewStep linked = scene.run({.transport = transport, .device = "cuda:0"});
  EXPECT_EQ(linked.loss, near.loss);
  EXPECT_EQ(linked.traffic, near.traffic);
  ASSERT_EQ(linked.weights.size(), near.weights.size());
  for (size_t i = 0; i < near.weights.size(); ++i)
    EXPECT_TRUE(linked.weights[i].bytes == near.weights[i].bytes) << near.weights[i].name;
}

INSTANTIATE_TEST_SUITE_P(Over, CudaLinks,
                         ::testing::Combine(::testing::Values(TransportKind::kShm,
                                                              TransportKind::kIpc,
                                                              TransportKind::kTcp),
                                            tests::seeds(1, 6)));

}  // namespace
}  // namespace kerf::schedmp
