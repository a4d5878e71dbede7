// How many products a MatMul is on a GPU that the host plays.
#include <gtest/gtest.h>

#include "tests/conformance/operator_fixture.h"
#include "tests/support/cuda_on_host/gpu.h"

namespace kerf::ops {
namespace {

constexpr int64_t kRows = 2;

// Kernels launched by a forward pass and the gradient of the second operand.
int64_t launches_of(const Shape& first, const Shape& second) {
  const OperatorCase scene{.name = {},
                           .op = "MatMul",
                           .attributes = {},
                           .inputs = {parameter(first), activation(second)},
                           .samples = kRows};
  const auto op = bind(scene);
  const auto device = runtime::make_device("cuda:0");
  const auto values = draw_inputs(scene, kRows, 1);
  OperatorRunner kernel(op, *device, kRows);
  const int64_t before = tests::gpu_counts().launches;
  (void)kernel.gradients(values, {.samples = kRows}, draw_upstream(*op, kRows, 2),
                         {{1, false, zeros(values[1].shape)}});
  return tests::gpu_counts().launches - before;
}

TEST(CudaMatmul, OfOneMatrixWithManyIsOneProduct) {
  EXPECT_EQ(launches_of({4, 3}, {kBatch, 6, 3, 5}), launches_of({4, 3}, {kBatch, 1, 3, 5}));
  EXPECT_EQ(launches_of({6, 1, 4, 3}, {1, 6, 7, 3, 5}), 6 * launches_of({4, 3}, {kBatch, 7, 3, 5}));
}

}  // namespace
}  // namespace kerf::ops
