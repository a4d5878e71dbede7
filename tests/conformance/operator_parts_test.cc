// What every operator promises of its iterations: however they are divided, the parts' results make
// up the whole's. What is partial, or seen by several parts, is summed.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "tests/conformance/operator_fixture.h"

namespace kerf::ops {
namespace {

// Beyond the samples there are, so that index sets of the batch are clipped.
constexpr int64_t kAbsentSamples = 2;

// Up to three random parts of `extent` indices, whose units stay together; with gaps in general.
std::vector<IndexSet> random_parts(const IterationAxis& axis, int64_t extent, Dice& dice) {
  const int64_t units = extent / axis.unit;
  const int64_t count = std::min<int64_t>(3, units);
  std::vector<std::vector<Range>> parts(static_cast<size_t>(count));
  for (int64_t u = 0; u < units; ++u) {
    const int64_t part = axis.contiguous ? u * count / units : u < count ? u : dice.below(count);
    parts[static_cast<size_t>(part)].push_back({u * axis.unit, (u + 1) * axis.unit});
  }
  std::vector<IndexSet> sets;
  for (auto& part : parts) sets.emplace_back(std::move(part));
  return sets;
}

class OperatorParts : public OperatorSuite {
 protected:
  struct Results {
    std::vector<HostTensor> outputs;
    std::vector<HostTensor> gradients;  // as asked
  };

  int64_t samples() const { return scene().samples; }
  int64_t largest() const { return scene().samples + kAbsentSamples; }
  int64_t extent(size_t axis) const {
    return concrete_extent(op().space().axes[axis].extent, largest());
  }
  bool divides(size_t axis) const {
    const IterationAxis& it = op().space().axes[axis];
    return it.undivided.empty() && extent(axis) > it.unit;
  }
  Box everything() const { return Box::whole(static_cast<int>(op().space().axes.size())); }

  Results zero_results() const {
    Results results;
    for (const ValueSpec& spec : op().outputs())
      results.outputs.push_back(zeros(spec.shape.with_batch(samples())));
    for (const Asked& one : asked_) results.gradients.push_back(one.before);
    return results;
  }

  // Adds what the call that computes these iterations gives.
  void add_part(const Box& iterations, Results& sums) const {
    ASSERT_EQ(check_iterations(op().space(), iterations, largest()), "");
    std::vector<Box> boxes;
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < values_.size(); ++i) {
      const bool present = op().has(static_cast<int>(i));
      boxes.push_back(input_box(op(), static_cast<int>(i), iterations, largest()));
      inputs.push_back(present ? cut(values_[i], boxes[i]) : HostTensor{});
    }
    std::vector<Box> output_boxes;
    std::vector<HostTensor> upstream;
    for (size_t i = 0; i < dy_.size(); ++i) {
      output_boxes.push_back(output_box(op(), static_cast<int>(i), iterations, largest()));
      upstream.push_back(cut(dy_[i], output_boxes[i]));
    }
    std::vector<Asked> asked;
    std::vector<size_t> target;  // of each, in sums.gradients
    for (size_t t = 0; t < asked_.size(); ++t) {
      const auto input = static_cast<size_t>(asked_[t].input);
      if (boxes[input].empty()) continue;  // a bias that another part adds
      asked.push_back({asked_[t].input, false, zeros(inputs[input].shape)});
      target.push_back(t);
    }
    OperatorRunner kernel(op_, *device_, iterations, largest());
    const auto outputs = kernel.forward(inputs, moment(samples()));
    for (size_t i = 0; i < outputs.size(); ++i)
      paste(outputs[i], output_boxes[i], sums.outputs[i], true);
    const auto gradients = kernel.gradients(inputs, moment(samples()), upstream, asked);
    for (size_t t = 0; t < asked.size(); ++t)
      paste(gradients[t], boxes[static_cast<size_t>(asked[t].input)], sums.gradients[target[t]],
            true);
  }

  void expect_whole(const Results& sums, const std::string& how) {
    if (!whole_) {
      OperatorRunner kernel = runner(largest());
      whole_ = Results{kernel.forward(values_, moment(samples())),
                       kernel.gradients(values_, moment(samples()), dy_, asked_)};
    }
    for (size_t i = 0; i < sums.outputs.size(); ++i)
      EXPECT_LT(difference(sums.outputs[i], whole_->outputs[i]), 1e-5) << how << ", output " << i;
    for (size_t t = 0; t < asked_.size(); ++t)
      EXPECT_LT(difference(sums.gradients[t], whole_->gradients[t]), 1e-5)
          << how << ", input " << asked_[t].input;
  }

  std::vector<HostTensor> values_ = draw_inputs(scene(), samples(), 10);
  std::vector<HostTensor> dy_ = draw_upstream(op(), samples(), 11);
  std::vector<Asked> asked_ = ask(op(), values_);
  std::optional<Results> whole_;
};

TEST_P(OperatorParts, PartsMakeUpTheWhole) {
  for (size_t axis = 0; axis < op().space().axes.size(); ++axis) {
    if (!divides(axis)) continue;
    Dice dice(12 + axis);
    Results sums = zero_results();
    for (const IndexSet& set : random_parts(op().space().axes[axis], extent(axis), dice)) {
      Box part = everything();
      part.axes[axis] = set;
      ASSERT_NO_FATAL_FAILURE(add_part(part, sums));
    }
    expect_whole(sums, "divided by " + op().space().axes[axis].name);
  }
}

TEST_P(OperatorParts, PartsOfTwoAxesMakeUpTheWhole) {
  std::vector<size_t> axes;
  for (size_t axis = op().space().axes.size(); axis-- > 0;)
    if (divides(axis)) axes.push_back(axis);
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    Dice dice(20 + i);
    const auto& space = op().space();
    const auto first = random_parts(space.axes[axes[i]], extent(axes[i]), dice);
    const auto second = random_parts(space.axes[axes[i + 1]], extent(axes[i + 1]), dice);
    Results sums = zero_results();
    for (const IndexSet& one : first)
      for (const IndexSet& other : second) {
        Box part = everything();
        part.axes[axes[i]] = one;
        part.axes[axes[i + 1]] = other;
        ASSERT_NO_FATAL_FAILURE(add_part(part, sums));
      }
    expect_whole(sums,
                 "divided by " + space.axes[axes[i]].name + " and " + space.axes[axes[i + 1]].name);
  }
}

TEST_P(OperatorParts, AShareOfSamplesThatAreAbsentAddsNothing) {
  for (size_t axis = 0; axis < op().space().axes.size(); ++axis) {
    const IterationAxis& batch = op().space().axes[axis];
    if (batch.extent >= 0 || !batch.undivided.empty()) continue;
    Box part = everything();
    part.axes[axis] = IndexSet::range(concrete_extent(batch.extent, samples()), extent(axis));
    Results sums = zero_results();
    ASSERT_NO_FATAL_FAILURE(add_part(part, sums));
    const Results nothing = zero_results();
    for (size_t i = 0; i < sums.outputs.size(); ++i)
      EXPECT_EQ(sums.outputs[i].floats, nothing.outputs[i].floats);
    for (size_t t = 0; t < asked_.size(); ++t)
      EXPECT_EQ(sums.gradients[t].floats, nothing.gradients[t].floats);
  }
}

TEST_P(OperatorParts, AxesThatStayWholeSayWhy) {
  std::vector<std::string> whole;
  for (size_t axis = 0; axis < op().space().axes.size(); ++axis) {
    const IterationAxis& it = op().space().axes[axis];
    if (it.undivided.empty()) continue;
    whole.push_back(it.name);
    Box part = everything();
    part.axes[axis] = IndexSet::range(0, it.unit);
    if (extent(axis) <= it.unit) continue;
    EXPECT_THAT(check_iterations(op().space(), part, largest()), testing::HasSubstr(it.undivided));
  }
  EXPECT_EQ(whole, scene().whole_axes);
}

TEST_P(OperatorParts, UnitsAndRangesAreKept) {
  for (size_t axis = 0; axis < op().space().axes.size(); ++axis) {
    const IterationAxis& it = op().space().axes[axis];
    if (!it.undivided.empty()) continue;
    Box part = everything();
    part.axes[axis] = IndexSet::range(0, 1);
    if (it.unit > 1) {
      EXPECT_NE(check_iterations(op().space(), part, largest()), "") << it.name;
    }
    part.axes[axis] = IndexSet({{0, it.unit}, {2 * it.unit, 3 * it.unit}});
    if (it.contiguous && extent(axis) > 3 * it.unit) {
      EXPECT_THAT(check_iterations(op().space(), part, largest()), testing::HasSubstr("range"))
          << it.name;
    }
  }
}

TEST_P(OperatorParts, TheWholeNeedsTheWholeAndLeavesNothingPartial) {
  const IterationSpace& space = op().space();
  for (size_t i = 0; i < space.inputs.size(); ++i) {
    if (!op().has(static_cast<int>(i))) continue;
    EXPECT_TRUE(input_box(op(), static_cast<int>(i), everything(), largest()).is_whole());
    EXPECT_TRUE(partial_slices(space, space.inputs[i], everything()).empty());
  }
  for (size_t i = 0; i < space.outputs.size(); ++i) {
    EXPECT_TRUE(output_box(op(), static_cast<int>(i), everything(), largest()).is_whole());
    EXPECT_TRUE(partial_slices(space, space.outputs[i], everything()).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorParts, testing::ValuesIn(all_operator_params()),
                         name_of);

}  // namespace
}  // namespace kerf::ops
