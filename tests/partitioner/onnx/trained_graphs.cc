// A step of training of a graph, put together and as it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner::onnx {

void expect_same_training(const Graph& graph, const ImportOptions& options, double tolerance) {
  ImportOptions one = options;
  one.loss = kCrossEntropy;
  ImportOptions pieces = one;
  pieces.fuse = false;
  const auto step_of = [](const Model& model) {
    model.check();
    return run(model, plan_of(model, Cut::kLayer, 1));
  };
  const StepResult got = step_of(import_graph(graph, one).model);
  const StepResult wanted = step_of(import_graph(graph, pieces).model);
  ASSERT_EQ(got.losses.size(), wanted.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], wanted.losses[i], tolerance);
  ASSERT_EQ(got.gradients.size(), wanted.gradients.size());
  ASSERT_FALSE(wanted.gradients.empty());
  for (const auto& [name, gradient] : wanted.gradients) {
    ASSERT_TRUE(got.gradients.contains(name)) << name;
    const std::vector<float>& other = got.gradients.at(name);
    ASSERT_EQ(other.size(), gradient.size()) << name;
    double largest = 1e-3;
    for (const float number : gradient)
      largest = std::max(largest, std::abs(static_cast<double>(number)));
    for (size_t i = 0; i < gradient.size(); ++i)
      ASSERT_NEAR(other[i], gradient[i], tolerance * largest) << name << " at " << i;
  }
}

}  // namespace kerf::partitioner::onnx
