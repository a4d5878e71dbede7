// Kernels and workbench of GPUs against the CPU's, beyond what the conformance suites ask of any
// device: on a GPU that the host plays, and on a real one where there is one.
#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <optional>
#include <random>

#include "tests/conformance/operator_fixture.h"
#include "tests/support/errors.h"
#include "tests/support/no_gpu.h"

namespace kerf::ops {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using tests::error_of;

// A device with its stream and workbench.
struct Bench {
  explicit Bench(const std::string& name)
      : device(runtime::make_device(name)),
        stream(device->make_stream()),
        workbench(make_workbench(*device, *stream)) {}

  template <class T>
  runtime::Buffer filled(const std::vector<T>& values) {
    runtime::Buffer buffer = device->allocate(std::max<size_t>(1, values.size() * sizeof(T)));
    stream->copy(buffer.data(), values.data(), values.size() * sizeof(T));
    return buffer;
  }
  template <class T>
  std::vector<T> content(const runtime::Buffer& buffer, size_t count) {
    std::vector<T> values(count);
    stream->copy(values.data(), buffer.data(), count * sizeof(T));
    stream->synchronize();
    return values;
  }

  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::Stream> stream;
  std::unique_ptr<Workbench> workbench;
};

// A test of a GPU, skipped where there is none.
class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tests::no_gpu(); !why.empty()) GTEST_SKIP() << why;
    gpu_ = std::make_unique<Bench>("cuda:0");
  }
  std::array<Bench*, 2> both() { return {&cpu_, gpu_.get()}; }

  Bench cpu_{"cpu"};
  std::unique_ptr<Bench> gpu_;
};

std::vector<float> random_floats(size_t count, uint64_t seed) {
  Dice dice(seed);
  std::vector<float> values(count);
  for (float& each : values) each = dice.uniform();
  return values;
}

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
    for (Bench* bench : both()) {
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

TEST_F(OnCuda, UpdatesToTheBitsOfTheCpuUnlessTheStepSaysNo) {
  for (const double momentum : {0.0, 0.9})
    for (const double cause : {0.0, 1.0}) {
      std::vector<float> results[2];
      for (Bench* bench : both()) {
        const auto optimizer =
            make_optimizer({.learning_rate = 0.1, .momentum = momentum}, *bench->device);
        const auto view = [](const runtime::Buffer& buffer) {
          return TensorView{DType::kFloat32, {33}, buffer.data()};
        };
        const runtime::Buffer weight = bench->filled(random_floats(33, 1));
        const runtime::Buffer gradient = bench->filled(random_floats(33, 2));
        const runtime::Buffer velocity = bench->filled(random_floats(33, 3));
        const runtime::Buffer stop = bench->filled(std::vector{cause});
        const TensorView state = view(velocity);
        bench->workbench->update(*optimizer, view(weight), view(gradient),
                                 {&state, static_cast<size_t>(optimizer->states())},
                                 reinterpret_cast<const double*>(stop.data()));
        bench->workbench->update_state(view(velocity), view(gradient), 0.7F,
                                       reinterpret_cast<const double*>(stop.data()));
        auto& result = results[bench == gpu_.get() ? 1 : 0];
        result = bench->content<float>(weight, 33);
        for (const float each : bench->content<float>(velocity, 33)) result.push_back(each);
      }
      EXPECT_EQ(results[0], results[1]) << momentum << ", " << cause;
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
  for (const Answers answers : {Answers::kLargestScore, Answers::kPicked, Answers::kNone}) {
    double counts[2];
    for (Bench* bench : both()) {
      const runtime::Buffer s = bench->filled(scores);
      const runtime::Buffer l =
          answers == Answers::kPicked ? bench->filled(picked) : bench->filled(labels);
      const runtime::Buffer entry = bench->filled(std::vector{1.0});
      bench->workbench->add_correct(
          answers, {DType::kFloat32, {6, 3}, s.data()},
          {answers == Answers::kPicked ? DType::kFloat32 : DType::kInt64, {6}, l.data()},
          reinterpret_cast<double*>(entry.data()));
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
  for (Bench* bench : both()) {
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

// ---- kernels

std::vector<HostTensor> everything(const std::string& device, const OperatorCase& scene) {
  const auto made = runtime::make_device(device);
  const auto op = bind(scene);
  const auto values = draw_inputs(scene, scene.samples, 21);
  OperatorRunner kernel(op, *made, scene.samples);
  const Moment now{.samples = scene.samples, .normaliser = 4};
  auto results = kernel.forward(values, now);
  for (auto& gradient :
       kernel.gradients(values, now, draw_upstream(*op, scene.samples, 22), ask(*op, values)))
    results.push_back(std::move(gradient));
  return results;
}

class CudaKernels : public OnCuda, public testing::WithParamInterface<OperatorCase> {};

TEST_P(CudaKernels, GiveWhatTheCpuGives) {
  if (!has_kernel(bind(GetParam())->name(), runtime::DeviceKind::kCuda))
    GTEST_SKIP() << "no kernel yet";
  const auto here = everything("cpu", GetParam());
  const auto there = everything("cuda:0", GetParam());
  ASSERT_EQ(here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i)
    EXPECT_LT(difference(here[i], there[i]), 1e-5) << "result " << i;
}

std::string name_of_case(const testing::TestParamInfo<OperatorCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Operators, CudaKernels, testing::ValuesIn(operator_cases()), name_of_case);

TEST_F(OnCuda, EveryOperatorButTheseHasAKernel) {
  std::vector<std::string> without;
  for (const std::string& name : operator_names())
    if (!has_kernel(name, runtime::DeviceKind::kCuda)) without.push_back(name);
  EXPECT_THAT(without, testing::UnorderedElementsAreArray({
                           "Attention",
                           "ConvTranspose",
                           "GRU",
                           "GlobalAveragePool",
                           "GlobalLpPool",
                           "GlobalMaxPool",
                           "GroupNormalization",
                           "InstanceNormalization",
                           "LRN",
                           "LSTM",
                           "LpNormalization",
                           "LpPool",
                           "MaxUnpool",
                           "MeanVarianceNormalization",
                           "RMSNormalization",
                           "RNN",
                           "Resize",
                           "RotaryEmbedding",
                       }));
}

TEST_F(OnCuda, DropsWhatTheCpuDrops) {
  const OperatorCase scene{.name = "Dropout",
                           .op = "Dropout",
                           .attributes = {{"ratio", 0.3}},
                           .inputs = {activation({kBatch, 4096})}};
  EXPECT_EQ(everything("cpu", scene)[0].floats, everything("cuda:0", scene)[0].floats);
}

// ---- what is wrong in the data

struct WrongData {
  std::string name;
  OperatorCase scene;
  size_t input;    // of the case, in which ...
  size_t element;  // ... this one is wrong
  int64_t value;
};

std::vector<WrongData> wrong_data() {
  return {{"label",
           {.name = {},
            .op = "SoftmaxCrossEntropyLoss",
            .inputs = {activation({kBatch, 6, 5}), classes({kBatch, 5}, 6)}},
           1,
           7,
           6},
          {"negative_label",
           {.name = {},
            .op = "SoftmaxCrossEntropyLoss",
            .inputs = {activation({kBatch, 10}), classes({kBatch}, 10)}},
           1,
           2,
           -1},
          {"picked_label",
           {.name = {},
            .op = "PickLabel",
            .inputs = {activation({kBatch, 7, 2}), classes({kBatch, 2}, 7)}},
           1,
           3,
           7},
          {"index",
           {.name = {}, .op = "Gather", .inputs = {parameter({9, 4}), classes({kBatch, 3}, 9)}},
           1,
           4,
           -10}};
}

TEST_F(OnCuda, RefusesWrongDataWithTheWordsOfTheCpu) {
  for (const WrongData& wrong : wrong_data()) {
    auto values = draw_inputs(wrong.scene, 3, 6);
    values[wrong.input].integers[wrong.element] = wrong.value;
    std::optional<Error> errors[2];
    for (Bench* bench : both())
      errors[bench == gpu_.get() ? 1 : 0] = error_of([&] {
        OperatorRunner kernel(bind(wrong.scene), *bench->device, 3);
        (void)kernel.forward(values, {.samples = 3});
      });
    ASSERT_TRUE(errors[0] && errors[1]) << wrong.name;
    EXPECT_EQ(errors[1]->code(), ErrorCode::kUsage) << wrong.name;
    EXPECT_EQ(errors[1]->message(), errors[0]->message()) << wrong.name;
  }
}

TEST_F(OnCuda, RefusesARatioThatIsNone) {
  OperatorCase scene{
      .name = {}, .op = "Dropout", .inputs = {activation({kBatch, 3}), {{DType::kFloat32, {1}}}}};
  scene.inputs[1].role = Role::kConstant;
  auto values = draw_inputs(scene, 2, 1);
  values[1].floats[0] = 1.5F;
  const auto error = error_of([&] {
    OperatorRunner kernel(bind(scene), *gpu_->device, 2);
    (void)kernel.forward(values, {.samples = 2});
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("1.5"));
}

}  // namespace
}  // namespace kerf::ops
