// The workbench of GPUs against the CPU's, beyond what the conformance suites ask of any device: on
// a GPU that the host plays, and on a real one where there is one.
#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "tests/ops/on_cuda.h"

namespace kerf::ops {
namespace {

using testing::ElementsAreArray;

// ---- moving

struct Piece {
  std::string name;
  Shape shape;
  Box holder;
  Box piece;
  std::vector<int> order = {};
};

IndexSet every_second(int64_t extent) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < extent; i += 2) indices.push_back(i);
  return IndexSet::of(indices);
}

std::vector<Piece> pieces() {
  const IndexSet all;
  return {
      {"everything", {kBatch, 3, 4}, {{all, all, all}}, {{all, all, all}}},
      {"columns", {kBatch, 12}, {{all, all}}, {{all, IndexSet::range(3, 7)}}},
      {"of_a_part", {kBatch, 12}, {{all, every_second(12)}}, {{all, IndexSet::of({2, 8, 10})}}},
      {"some_samples", {kBatch, 5}, {{IndexSet::range(1, 5), all}}, {{IndexSet::range(2, 4), all}}},
      {"batch_inside", {4, kBatch, 3}, {{all, all, all}}, {{IndexSet::of({1, 3}), all, all}}},
      {"channels_last",
       {kBatch, 6, 2, 3},
       {{all, all, all, all}},
       {{all, every_second(6), all, all}},
       {0, 2, 3, 1}},
      // More stretches than one launch has room for.
      {"free_cut", {kBatch, 400}, {{all, all}}, {{all, every_second(400)}}},
      {"two_free_axes", {240, 150}, {{all, all}}, {{every_second(240), every_second(150)}}},
      {"a_scalar", {}, {{}}, {{}}},
      {"nothing", {kBatch, 5}, {{all, all}}, {{all, IndexSet::none()}}},
  };
}

class MovesCuda : public OnCuda, public testing::WithParamInterface<DType> {
 protected:
  // The same bytes on either device, moved by the same call.
  template <class Act>
  void expect_alike(const std::vector<uint8_t>& from, const std::vector<uint8_t>& to,
                    const Act& act, const std::string& what) {
    std::vector<uint8_t> results[2];
    for (CudaBench* bench : both()) {
      const runtime::Buffer source = bench->filled(from);
      const runtime::Buffer target = bench->filled(to);
      act(*bench->workbench, source.data(), target.data());
      results[bench == gpu_.get() ? 1 : 0] = bench->content<uint8_t>(target, to.size());
    }
    EXPECT_EQ(results[0], results[1]) << what;
  }
  std::vector<uint8_t> bytes(size_t count, uint64_t seed) const {
    if (is_floating(GetParam())) {
      const std::vector<float> values = random_floats(count / 4 + 1, seed);
      const auto* first = reinterpret_cast<const uint8_t*>(values.data());
      return {first, first + count};
    }
    std::mt19937_64 random(seed);
    std::vector<uint8_t> result(count);
    for (uint8_t& each : result) each = static_cast<uint8_t>(random());
    return result;
  }
};

TEST_P(MovesCuda, PacksAndUnpacksAsTheCpuDoes) {
  constexpr int64_t kLargest = 5;
  for (const Piece& each : pieces())
    for (const int64_t samples : {int64_t{0}, int64_t{3}, kLargest}) {
      const ValueSpec spec{GetParam(), each.shape};
      const Selection selection(each.holder, each.piece, spec, each.order);
      const TensorView local{GetParam(), local_shape(each.holder, each.shape, samples), nullptr};
      const size_t dense = selection.bytes(samples);
      const auto at = [&](std::byte* data) {
        TensorView view = local;
        view.data = data;
        return view;
      };
      const std::string what = each.name + " of " + std::to_string(samples);
      expect_alike(
          bytes(local.bytes(), 1), bytes(dense, 2),
          [&](Workbench& bench, std::byte* from, std::byte* to) {
            bench.pack(selection, at(from), to, samples);
          },
          "pack " + what);
      expect_alike(
          bytes(dense, 3), bytes(local.bytes(), 4),
          [&](Workbench& bench, std::byte* from, std::byte* to) {
            bench.unpack(selection, from, at(to), samples);
          },
          "unpack " + what);
      if (GetParam() != DType::kFloat32) continue;
      expect_alike(
          bytes(local.bytes(), 5), bytes(dense, 6),
          [&](Workbench& bench, std::byte* from, std::byte* to) {
            bench.pack_add(selection, at(from), to, samples);
          },
          "pack_add " + what);
      expect_alike(
          bytes(dense, 7), bytes(local.bytes(), 8),
          [&](Workbench& bench, std::byte* from, std::byte* to) {
            bench.unpack_add(selection, from, at(to), samples);
          },
          "unpack_add " + what);
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, MovesCuda,
                         testing::Values(DType::kBool, DType::kFloat16, DType::kFloat32,
                                         DType::kInt64),
                         [](const auto& param) { return std::string(to_string(param.param)); });

// ---- updating

std::vector<OptimizerOptions> optimizers_of_all_kinds() {
  return {{.momentum = 0},
          {.momentum = 0.9},
          {.momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
          {.weight_decay = 0.1, .most_norm = 0.5},
          {.name = "adagrad", .weight_decay = 0.1, .most_norm = 2},
          {.name = "adam", .weight_decay = 0.1},
          {.name = "adamw", .weight_decay = 0.1, .most_norm = 2}};
}

TEST_F(OnCuda, UpdatesToTheBitsOfTheCpuUnlessTheStepSaysNo) {
  for (const OptimizerOptions& options : optimizers_of_all_kinds())
    for (const double cause : {0.0, 1.0}) {
      std::vector<float> results[2];
      for (CudaBench* bench : both()) {
        const Optimizer optimizer(options);
        const auto view = [](const runtime::Buffer& buffer) {
          return TensorView{DType::kFloat32, {33}, buffer.data()};
        };
        const runtime::Buffer weight = bench->filled(random_floats(33, 1));
        const runtime::Buffer gradient = bench->filled(random_floats(33, 2));
        std::vector<float> squares = random_floats(33, 4);
        for (float& each : squares) each *= each;
        const bool adagrad = options.name == "adagrad";
        const runtime::Buffer first = bench->filled(adagrad ? squares : random_floats(33, 3));
        const runtime::Buffer second = bench->filled(squares);
        const runtime::Buffer step = bench->filled(std::vector{cause, 9.0});
        const auto* entries = reinterpret_cast<const double*>(step.data());
        const TensorView states[] = {view(first), view(second)};
        bench->workbench->update(optimizer.rule({0.1, 3}, true), view(weight), view(gradient),
                                 {states, static_cast<size_t>(optimizer.states())},
                                 {entries, entries + 1});
        bench->workbench->update_state(view(first), view(gradient), 0.7F, entries);
        auto& result = results[bench == gpu_.get() ? 1 : 0];
        result = bench->content<float>(weight, 33);
        for (const runtime::Buffer* state : {&first, &second})
          for (const float each : bench->content<float>(*state, 33)) result.push_back(each);
      }
      EXPECT_EQ(results[0], results[1]) << options.name << ", " << cause;
      if (cause != 0) {
        EXPECT_THAT(std::vector(results[1].begin(), results[1].begin() + 33),
                    ElementsAreArray(random_floats(33, 1)));
      }
    }
}

// ---- reporting

TEST_F(OnCuda, AddsNormsAndScalarsToWhatIsThere) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{50'000}}) {
    const std::vector<float> values = random_floats(count, 4);
    double expected = 2;
    for (const float each : values) expected += double{each} * each;
    const runtime::Buffer x = gpu_->filled(values);
    const runtime::Buffer entry = gpu_->filled(std::vector{2.0});
    auto* to = reinterpret_cast<double*>(entry.data());
    gpu_->workbench->add_squared_norm({DType::kFloat32, {static_cast<int64_t>(count)}, x.data()},
                                      to);
    EXPECT_NEAR(gpu_->content<double>(entry, 1)[0], expected, 1e-12 * expected) << count;
    if (count == 0) continue;
    gpu_->workbench->add_scalar({DType::kFloat32, {}, x.data()}, to);
    EXPECT_NEAR(gpu_->content<double>(entry, 1)[0], expected + double{values[0]}, 1e-9);
  }
}

TEST_F(OnCuda, CountsRightAnswersAsTheCpuDoes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Rows: right, wrong, a tie whose first is right, a tie whose second is, a NaN, no such class.
  const std::vector<float> scores{1, 3, 2, 5, 1, 2, 4, 4, 1, 0, 6, 6, nan, 1, 0, 1, 2, 3};
  const std::vector<int64_t> labels{1, 2, 0, 2, 1, 9};
  const std::vector<float> picked{3, 2, 4, 6, 1, 3};
  for (const auto& [answers, among] : {std::pair(Answers::kLargestScore, 1),
                                       {Answers::kLargestScore, 2},
                                       {Answers::kLargestScore, 5},
                                       {Answers::kPicked, 1},
                                       {Answers::kPicked, 5},
                                       {Answers::kNone, 1}}) {
    double counts[2];
    for (CudaBench* bench : both()) {
      const runtime::Buffer s = bench->filled(scores);
      const runtime::Buffer l =
          answers == Answers::kPicked ? bench->filled(picked) : bench->filled(labels);
      const runtime::Buffer entry = bench->filled(std::vector{1.0});
      bench->workbench->add_correct(
          answers, {DType::kFloat32, {6, 3}, s.data()},
          {answers == Answers::kPicked ? DType::kFloat32 : DType::kInt64, {6}, l.data()},
          reinterpret_cast<double*>(entry.data()), among);
      counts[bench == gpu_.get() ? 1 : 0] = bench->content<double>(entry, 1)[0];
    }
    EXPECT_EQ(counts[0], counts[1]) << static_cast<int>(answers);
  }
}

TEST_F(OnCuda, CountsRightAnswersOfManyRows) {
  constexpr int64_t kRows = 9'001;
  constexpr int64_t kClasses = 3;
  const std::vector<float> scores = random_floats(kRows * kClasses, 5);
  std::vector<int64_t> labels(kRows);
  for (size_t row = 0; row < labels.size(); ++row) labels[row] = static_cast<int64_t>(row % 3);
  double counts[2];
  for (CudaBench* bench : both()) {
    const runtime::Buffer s = bench->filled(scores);
    const runtime::Buffer l = bench->filled(labels);
    const runtime::Buffer entry = bench->filled(std::vector{0.0});
    bench->workbench->add_correct(
        Answers::kLargestScore, {DType::kFloat32, {kRows, kClasses}, s.data()},
        {DType::kInt64, {kRows}, l.data()}, reinterpret_cast<double*>(entry.data()));
    counts[bench == gpu_.get() ? 1 : 0] = bench->content<double>(entry, 1)[0];
  }
  EXPECT_EQ(counts[0], counts[1]);
  EXPECT_GT(counts[1], kRows / 6.0);
}

}  // namespace
}  // namespace kerf::ops
