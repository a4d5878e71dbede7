// An operator by files alone: a definition, a kernel and a row of the suite lie in this folder, and
// no file of Kerf names it. It is known, and trained by several workers, divided along each of its
// axes: as one worker trains it, and as plain loops in float64 do.
#include "schedmp/training/training.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numeric>

#include "ops/kernel.h"
#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "schedmp/safetensors.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;
using partitioner::ValueId;

constexpr int64_t kFeatures = 12;
constexpr int64_t kChannels = 4;
constexpr int64_t kPlaces = kFeatures / kChannels;
constexpr int64_t kClasses = 5;
constexpr int64_t kRows = 46;
constexpr int64_t kBatchRows = 14;  // the last batch of an epoch has 4
constexpr int64_t kSteps = 9;
constexpr double kLearningRate = 0.1;
constexpr double kMomentum = 0.9;

//   x [N, 12] ── fc1 ── [N, 4, 3] ── scale ── [N, 12] ── fc2 ── [N, 5] ── loss
Model make_model(const std::string&) {
  partitioner::Builder b("scaled");
  const ValueId h = b.gemm(b.input("x", {ops::kBatch, kFeatures}), kFeatures, "fc1");
  const ValueId factors = b.parameter("scale.factors", {kChannels}, {});
  const ValueId scaled = b.node(
      "ChannelScale", {b.reshape(h, {0, kChannels, kPlaces}, "channels"), factors}, {}, "scale");
  b.loss(b.gemm(b.flatten(scaled, "flat"), kClasses, "fc2"));
  return b.build();
}

std::shared_ptr<const tests::RandomDataset> make_rows() {
  return std::make_shared<tests::RandomDataset>(kRows, kFeatures, kClasses);
}

TrainingFactories factories() {
  return {make_model, [](const std::string&, Split, const DataRequest&) { return make_rows(); }};
}

// A parameter as plain loops have it.
struct Trained {
  std::vector<double> weights, gradients, velocities;

  explicit Trained(size_t count, uint64_t stream) : weights(count), velocities(count) {
    for (size_t i = 0; i < count; ++i)
      weights[i] = double{ops::normal({stream, 0, 0, 0}, static_cast<int64_t>(i)) / 4};
  }
  void update() {
    for (size_t i = 0; i < weights.size(); ++i) {
      velocities[i] = kMomentum * velocities[i] + gradients[i];
      weights[i] -= kLearningRate * velocities[i];
    }
  }
};

// The model in loops over the rows of a batch: no tensors, no operators, no divisions.
class PlainLoops {
 public:
  Trained w1{kFeatures * kFeatures, 11}, b1{kFeatures, 12}, factors{kChannels, 13},
      w2{kClasses * kFeatures, 14}, b2{kClasses, 15};

  std::vector<std::pair<std::string, Trained*>> all() {
    return {{"fc1.weight", &w1},
            {"fc1.bias", &b1},
            {"scale.factors", &factors},
            {"fc2.weight", &w2},
            {"fc2.bias", &b2}};
  }

  // The mean loss of the batch.
  double step(const std::vector<int64_t>& rows) {
    for (auto& [name, each] : all()) each->gradients.assign(each->weights.size(), 0);
    double loss = 0;
    for (const int64_t row : rows) loss += add_row(row, static_cast<double>(rows.size()));
    for (auto& [name, each] : all()) each->update();
    return loss / static_cast<double>(rows.size());
  }

 private:
  using Row = std::vector<double>;

  // y = W x + b; and what comes back.
  static Row product(const Trained& w, const Trained& b, const Row& x) {
    Row y = b.weights;
    for (size_t o = 0; o < y.size(); ++o)
      for (size_t i = 0; i < x.size(); ++i) y[o] += w.weights[o * x.size() + i] * x[i];
    return y;
  }
  static Row product_gradient(Trained& w, Trained& b, const Row& x, const Row& dy) {
    Row dx(x.size());
    for (size_t o = 0; o < dy.size(); ++o) {
      b.gradients[o] += dy[o];
      for (size_t i = 0; i < x.size(); ++i) {
        w.gradients[o * x.size() + i] += dy[o] * x[i];
        dx[i] += w.weights[o * x.size() + i] * dy[o];
      }
    }
    return dx;
  }

  double add_row(int64_t row, double rows) {
    std::vector<float> features(kFeatures);
    int64_t label = 0;
    data_->read_features(
        {&row, 1},
        {ops::DType::kFloat32, {1, kFeatures}, reinterpret_cast<std::byte*>(features.data())});
    data_->read_labels({&row, 1}, {ops::DType::kInt64, {1}, reinterpret_cast<std::byte*>(&label)});
    const Row x(features.begin(), features.end());
    const Row h = product(w1, b1, x);
    Row y = h;
    for (size_t i = 0; i < y.size(); ++i) y[i] *= factors.weights[i / kPlaces];
    const Row scores = product(w2, b2, y);
    double sum = 0;
    for (const double score : scores) sum += std::exp(score);
    Row ds(scores.size());
    for (size_t c = 0; c < ds.size(); ++c)
      ds[c] = (std::exp(scores[c]) / sum - (static_cast<int64_t>(c) == label ? 1 : 0)) / rows;
    const Row dy = product_gradient(w2, b2, y, ds);
    Row dh = dy;
    for (size_t i = 0; i < dh.size(); ++i) {
      factors.gradients[i / kPlaces] += dy[i] * h[i];
      dh[i] *= factors.weights[i / kPlaces];
    }
    product_gradient(w1, b1, x, dh);
    return std::log(sum) - scores[static_cast<size_t>(label)];
  }

  std::shared_ptr<const tests::RandomDataset> data_ = make_rows();
};

struct Division {
  std::string name;
  Cut cut = Cut::kFree;
  int workers = 2;
  std::string scale = {};  // what a free cut's file says of the node
  double tolerance = 1e-5;
};

struct Answer {
  std::vector<double> losses;
  std::vector<NamedTensor> weights;
};

void write_start(const std::filesystem::path& file) {
  std::vector<NamedTensor> tensors;
  const Model model = make_model("");
  PlainLoops start;
  for (const auto& [name, each] : start.all()) {
    const std::vector<float> numbers(each->weights.begin(), each->weights.end());
    tensors.push_back({name,
                       ops::DType::kFloat32,
                       model.value(model.find_value(name)).spec.shape,
                       {reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4}});
  }
  write_safetensors(file, tensors);
}

PlanRequest request_of(const Division& division) {
  PlanRequest request;
  request.cut = division.cut;
  request.workers = division.workers;
  request.batch = kBatchRows;
  request.micro_batches = 3;
  if (division.cut == Cut::kFree)
    request.shares = R"({"kerf_shares": 1, "shares": {"scale": )" + division.scale + "}}";
  request.shares_origin = "shares";
  return request;
}

// Rows in the order of the data set, in micro-batches of 5, 5 and 4.
Answer train(const Division& division) {
  const tests::TemporaryFolder folder;
  const Model model = make_model("");
  const PlanRequest request = request_of(division);
  const Plan plan = std::get<Plan>(partitioner::make_plan(model, request, *in_flight_of("1f1b")));
  TrainingOptions options;
  options.batch = request.batch;
  options.steps = kSteps;
  options.shuffle = false;
  options.optimizer = {"sgd", kLearningRate, kMomentum};
  options.shards = folder / "shards";
  options.weights = folder / "start.safetensors";
  std::filesystem::create_directories(options.shards);
  write_start(options.weights);
  Training program(factories(), model, plan, make_schedule("1f1b", model, plan), options);
  const auto crew = tests::inproc_crew(division.workers,
                                       {{"training", [] { return training_worker(factories()); }}});
  run(program, *crew, {3, 1});
  crew->stop();
  for (const RouteFigures& route : program.routes()) {
    EXPECT_EQ(route.messages, route.predicted_messages);
    EXPECT_EQ(route.bytes, route.predicted_bytes);
  }
  join_weights(model, plan, options.shards, folder / "end.safetensors");
  Answer answer{{}, read_safetensors(folder / "end.safetensors")};
  for (const StepRecord& step : program.steps()) answer.losses.push_back(step.loss);
  return answer;
}

std::vector<float> numbers_of(const NamedTensor& tensor) {
  const auto* numbers = reinterpret_cast<const float*>(tensor.bytes.data());
  return {numbers, numbers + tensor.bytes.size() / sizeof(float)};
}

void expect_close(const Answer& got, const Answer& expected, double tolerance) {
  ASSERT_EQ(got.losses.size(), static_cast<size_t>(kSteps));
  for (size_t step = 0; step < got.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step], expected.losses[step], tolerance * expected.losses[step]) << step;
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (size_t t = 0; t < got.weights.size(); ++t) {
    EXPECT_EQ(got.weights[t].name, expected.weights[t].name);
    const auto one = numbers_of(got.weights[t]);
    const auto other = numbers_of(expected.weights[t]);
    ASSERT_EQ(one.size(), other.size());
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(one[i], other[i], tolerance) << got.weights[t].name << " " << i;
  }
}

TEST(ByFiles, TheOperatorIsKnownAmongKerfsOwn) {
  EXPECT_THAT(ops::operator_names(), testing::IsSupersetOf({"ChannelScale", "Conv", "Relu"}));
  EXPECT_TRUE(ops::has_kernel("ChannelScale", runtime::DeviceKind::kCpu));
}

TEST(ByFiles, OneWorkerTrainsItAsPlainLoopsDo) {
  const Answer answer = train({"Alone", Cut::kLayer, 1});
  PlainLoops loops;
  const std::vector<double> before = loops.factors.weights;
  int64_t row = 0;
  for (size_t step = 0; step < answer.losses.size(); ++step) {
    std::vector<int64_t> rows(static_cast<size_t>(std::min(kBatchRows, kRows - row)));
    std::iota(rows.begin(), rows.end(), row);
    row = (rows.back() + 1) % kRows;
    const double loss = loops.step(rows);
    EXPECT_NEAR(answer.losses[step], loss, 1e-5 * loss) << step;
  }
  std::map<std::string, std::vector<float>> trained;
  for (const NamedTensor& each : answer.weights) trained[each.name] = numbers_of(each);
  for (const auto& [name, each] : loops.all()) {
    ASSERT_EQ(trained[name].size(), each->weights.size()) << name;
    for (size_t i = 0; i < each->weights.size(); ++i)
      EXPECT_NEAR(double{trained[name][i]}, each->weights[i], 1e-5) << name << " " << i;
  }
  for (size_t c = 0; c < before.size(); ++c)
    EXPECT_GT(std::abs(loops.factors.weights[c] - before[c]), 1e-3) << "not trained";
}

class Divided : public testing::TestWithParam<Division> {};

TEST_P(Divided, SeveralWorkersTrainItAsOneDoes) {
  expect_close(train(GetParam()), train({"Alone", Cut::kLayer, 1}), GetParam().tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Divisions, Divided,
    testing::Values(Division{"Layers", Cut::kLayer, 3, "", 0}, Division{"Features", Cut::kFeature},
                    Division{"Hybrid", Cut::kHybrid, 4},
                    Division{"Channels", Cut::kFree, 2,
                             R"({"0": {"channels": "0,2-3"}, "1": {"channels": "1"}})"},
                    Division{"Samples", Cut::kFree, 3,
                             R"({"0": {"samples": "0-1"}, "1": {"samples": "2"},
                                 "2": {"samples": "3-4"}})"},
                    Division{"Space", Cut::kFree, 2,
                             R"({"0": {"axis 2": "0"}, "1": {"axis 2": "1-2"}})"},
                    Division{"ChannelsAndSamples", Cut::kFree, 3,
                             R"({"0": {"channels": "0-1", "samples": "0-2"},
                                 "1": {"channels": "2-3", "samples": "0-2"},
                                 "2": {"samples": "3-4"}})"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace kerf::schedmp
