// In place: an output is written over an input that nobody reads later, and over no other. That the
// numbers stay the same is what lower_test.cc and divided_step_test.cc show of all models.
#include <gmock/gmock.h>

#include "partitioner/builder.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kWidth = 32;

struct Sketch {
  Builder builder{"sketch"};
  ValueId x = builder.gemm(builder.input("x", {ops::kBatch, kWidth}), kWidth, "first");

  Model end(ValueId last) {
    builder.loss(builder.gemm(last, 4));
    return builder.build();
  }
};

std::string lists_of(const Model& model, bool gradients) {
  const Plan plan = plan_of(model, Cut::kLayer, 1);
  return describe(model, plan, lower(model, plan, {.gradients = gradients}).at(0));
}

// Bytes of the tensors that the forward pass of a part makes, by its places.
int64_t forward_bytes(const Model& model, bool gradients) {
  const Plan plan = plan_of(model, Cut::kLayer, 1);
  const Part part = lower(model, plan, {.gradients = gradients}).at(0);
  int64_t bytes = 0;
  for (const int64_t region : part.region_bytes) bytes += region;
  return bytes;
}

TEST(InPlace, ReluIsWrittenOverWhatItAloneReads) {
  Sketch s;
  const Model m = s.end(s.builder.relu(s.x, "r"));
  EXPECT_THAT(lists_of(m, true), HasSubstr("r.output = Relu(first.output) in place\n"));
}

TEST(InPlace, WhatIsReadLaterStays) {
  Sketch s;
  const ValueId relu = s.builder.relu(s.x, "r");
  const Model m = s.end(s.builder.add(relu, s.x, "sum"));
  const std::string text = lists_of(m, true);
  EXPECT_THAT(text, HasSubstr("r.output = Relu(first.output)\n")) << "sum reads first.output";
  EXPECT_THAT(text, HasSubstr("sum.output = Add(r.output, first.output) in place\n"));
}

TEST(InPlace, WhatIsReadTwiceByOneNodeStays) {
  Sketch s;
  const Model m = s.end(s.builder.add(s.x, s.x, "twice"));
  EXPECT_THAT(lists_of(m, true), HasSubstr("twice.output = Add(first.output, first.output)\n"));
}

TEST(InPlace, WhatTheBackwardPassReadsStaysWhereThereIsOne) {
  Sketch s;
  const ValueId squashed = s.builder.node("Sigmoid", {s.x}, {}, "squash");
  const Model m = s.end(s.builder.relu(squashed, "r"));
  EXPECT_THAT(lists_of(m, true), HasSubstr("r.output = Relu(squash.output)\n"))
      << "the gradient of Sigmoid is made of its output";
  EXPECT_THAT(lists_of(m, false), HasSubstr("r.output = Relu(squash.output) in place\n"));
}

TEST(InPlace, DataAreNotWrittenOver) {
  Builder b("data");
  const ValueId x = b.input("x", {ops::kBatch, kWidth});
  b.loss(b.gemm(b.relu(x, "r"), 4));
  EXPECT_THAT(lists_of(b.build(), true), Not(HasSubstr("in place\n")));
}

TEST(InPlace, AChainForwardOnlyTakesTheMemoryOfOneTensor) {
  const auto chain = [](int length) {
    Sketch s;
    ValueId last = s.x;
    for (int i = 0; i < length; ++i) last = s.builder.relu(last);
    return s.end(last);
  };
  EXPECT_EQ(forward_bytes(chain(6), false), forward_bytes(chain(1), false));
}

}  // namespace
}  // namespace kerf::partitioner
