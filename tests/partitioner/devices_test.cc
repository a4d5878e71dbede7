// Devices that differ: read, priced by their speeds, held to their memory.
#include <gmock/gmock.h>

#include <algorithm>
#include <regex>

#include "partitioner/builder.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "tests/partitioner/steered_plans.h"

namespace kerf::partitioner {
namespace {

using ::testing::AllOf;
using testing::expect_least;
using testing::free_request;
using ::testing::HasSubstr;
using testing::made;
using testing::message_of;
using testing::plan_of;
using testing::request_of;
using testing::small_mlp;
using testing::with_speeds;

TEST(Devices, ReadAsWritten) {
  const std::string text = R"({"kerf_devices": 1,
      "workers": {"1": {"speed": 2.5, "memory": 1000}, "0": {"speed": 0.5}},
      "links": [{"between": [1, 0], "bytes_per_second": 1e9, "seconds": 1e-4}]})";
  const Capacities read = read_devices(text, "d.json", std::nullopt);
  EXPECT_EQ(read.speed_of(0), 0.5);
  EXPECT_EQ(read.speed_of(1), 2.5);
  EXPECT_EQ(read.memory_of(0), std::nullopt);
  EXPECT_EQ(read.memory_of(1), 1000);
  EXPECT_EQ(read.speed_of_all(2), 3);
  EXPECT_EQ(read.link_between(0, 1)->seconds, 1e-4);
  EXPECT_EQ(read_capacities(capacities_json(read), "again"), read);
  EXPECT_EQ(read_devices(text, "d.json", 2), read);
}

TEST(Devices, EveryMistakeIsNamed) {
  const auto refusal = [](const std::string& workers, const std::string& links = "[]") {
    return message_of([&] {
      read_devices(format(R"({{"kerf_devices": 1, "workers": {}, "links": {}}})", workers, links),
                   "d.json", 2);
    });
  };
  const std::string two = R"({"0": {"speed": 1}, "1": {"speed": 1}})";
  for (const char* speed : {"0", "-1", "1e+300", "\"NaN\"", "null", "1e-09"})
    EXPECT_THAT(refusal(format(R"({{"0": {{"speed": 1}}, "1": {{"speed": {}}}}})", speed)),
                AllOf(HasSubstr("d.json: worker 1"), HasSubstr("\"speed\""), HasSubstr(speed)));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1, "memory": 0}, "1": {"speed": 1}})"),
              AllOf(HasSubstr("d.json: worker 0"), HasSubstr("\"memory\"")));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1}, "2": {"speed": 1}})"), HasSubstr("worker 2"));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1}, "one": {"speed": 1}})"), HasSubstr("\"one\""));
  for (const char* none : {"{}", "[]", R"([{"speed": 1}])", "\"two\"", "2"})
    EXPECT_THAT(refusal(none), HasSubstr("d.json: \"workers\" wants an object")) << none;
  EXPECT_THAT(refusal(R"({"-0": {"speed": 1}, "1": {"speed": 1}})"),
              HasSubstr("\"-0\" is no number"));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1}})"), HasSubstr("worker 1 is not listed"));
  EXPECT_THAT(refusal(R"({"0": {"speed": 1}, "1": {"speed": 1}, "2": {"speed": 1}})"),
              HasSubstr("there is no worker 2"));
  EXPECT_THAT(refusal(R"({"0": {"sped": 1}, "1": {"speed": 1}})"), HasSubstr("\"sped\""));
  EXPECT_THAT(refusal(two, R"([{"between": [0, 2]}])"), HasSubstr("no worker 2"));
  EXPECT_THAT(refusal(two, R"([{"between": [0, 0]}])"), HasSubstr("two workers"));
  EXPECT_THAT(refusal(two, R"([{"between": [0, 1]}, {"between": [1, 0]}])"), HasSubstr("twice"));
  EXPECT_THAT(refusal(two, R"([{"between": [0, 1], "bytes_per_second": 0}])"),
              AllOf(HasSubstr("links[0]"), HasSubstr("bytes_per_second")));
}

// Twice as fast in everything: half the time of everything.
TEST(Devices, TimeGoesByTheSpeedOfEach) {
  const Model model = make_zoo_model("lenet5");
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kHybrid}) {
    PlanRequest request = request_of(cut, 3);
    const Plan plain = plan_of(model, request);
    request.speed.capacities = with_speeds({2, 2, 2});
    for (const auto& [a, b] : {std::pair{0, 1}, {0, 2}, {1, 2}})
      request.speed.capacities.links[{a, b}] = {2 * request.speed.link_bytes_per_second,
                                                request.speed.link_seconds / 2};
    const Plan fast = plan_of(model, request);
    EXPECT_EQ(fast.stages, plain.stages);
    EXPECT_NEAR(fast.bottleneck, plain.bottleneck / 2, 1e-9 * plain.bottleneck);
    const auto step = [&](const Plan& plan, const DeviceSpeed& speed) {
      const auto schedule = schedmp::make_schedule("1f1b", model, plan);
      return schedmp::simulate(model, plan, lower(model, plan), schedule, speed)->step_seconds;
    };
    EXPECT_NEAR(step(plain, request.speed), step(plain, {}) / 2, 1e-9 * step(plain, {}));
    for (size_t worker = 0; worker < fast.workers.size(); ++worker)
      EXPECT_NEAR(fast.workers[worker].seconds, plain.workers[worker].seconds / 2, 1e-12);
  }
}

TEST(Devices, LayerCutFindsTheBestOfAll) {
  for (const Model& model : {small_mlp(), testing::skip_model(), testing::branch_model()})
    for (const std::vector<double>& speeds : {std::vector<double>{1, 2, 4}, {4, 1, 1}, {3, 0.5, 2}})
      for (const double link_seconds : {20e-6, 1e-7}) {
        PlanRequest request = request_of(Cut::kLayer, 3);
        request.speed.link_seconds = link_seconds;
        request.speed.capacities = with_speeds(speeds);
        expect_least(model, request, [](const auto&) { return true; });
      }
}

// Workers that are said to be alike are planned for as if nothing were said.
TEST(Devices, ThatAreAlikeChangeNothing) {
  for (const Model& model : testing::sample_models())
    for (const int workers : {2, 3}) {
      PlanRequest request = request_of(Cut::kLayer, workers);
      const Plan plain = plan_of(model, request);
      request.speed.capacities = with_speeds(std::vector<double>(static_cast<size_t>(workers), 1));
      const Plan said = made(model, request);
      EXPECT_EQ(said.stages, plain.stages) << model.name();
      EXPECT_EQ(said.bottleneck, plain.bottleneck);
      EXPECT_NEAR(said.bound.value(), plain.bound.value(), 1e-9 * plain.bottleneck);
    }
}

TEST(Devices, NobodyTakesMoreThanItsDeviceHas) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.speed.capacities = with_speeds({1, 1});
  const Plan free = made(model, request);
  for (const size_t small : {size_t{0}, size_t{1}}) {
    const int64_t less = free.workers[small].peak_bytes - 1;
    request.speed.capacities = with_speeds({1, 1});
    request.speed.capacities.workers[small].memory = less;
    const Plan plan = made(model, request);
    EXPECT_LE(plan.workers[small].peak_bytes, less);
  }
  request.speed.capacities.workers[1].memory = 10'000;  // the loss alone has room in it
  EXPECT_LE(made(model, request).workers[1].peak_bytes, 10'000);
  request.speed.capacities.workers[1].memory = 100;
  const auto answer = make_plan(model, request, *hold_everything());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(answer));
  EXPECT_THAT(std::get<Infeasible>(answer).text(), HasSubstr("worker 1's device"));
}

// What is said of devices that are too small: which worker's needs how many bytes.
std::vector<std::pair<size_t, int64_t>> needed_memory(const Model& model,
                                                      const PlanRequest& request) {
  const auto answer = make_plan(model, request, *hold_everything());
  const auto* const infeasible = std::get_if<Infeasible>(&answer);
  if (infeasible == nullptr) return {};
  std::vector<std::pair<size_t, int64_t>> needed;
  const std::regex device("of worker (\\d+) with (\\d+) bytes");
  const std::string& text = infeasible->smallest_change;
  for (std::sregex_iterator found(text.begin(), text.end(), device), end; found != end; ++found)
    needed.emplace_back(std::stoul((*found)[1]), std::stoll((*found)[2]));
  EXPECT_EQ(infeasible->over, needed.front().second - infeasible->cap) << text;
  return needed;
}

// Where the other can take over, and where both are too small.
TEST(Devices, OfSmallOnesItIsSaidWhatTheyNeedToTheByte) {
  for (const Model& model : {make_zoo_model("lenet5"), small_mlp()})
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kHybrid})
      for (const std::vector<size_t>& small : {std::vector<size_t>{0}, {1}, {0, 1}}) {
        SCOPED_TRACE(format("{} {} {}", model.name(), cuts()[static_cast<size_t>(cut)].name,
                            fmt::join(small, ",")));
        PlanRequest request = request_of(cut, 2);
        request.speed.capacities = with_speeds({1, 1});
        auto& devices = request.speed.capacities.workers;
        for (const size_t worker : small) devices[worker].memory = 10;
        const auto needed = needed_memory(model, request);
        ASSERT_EQ(needed.size(), small.size());
        for (const auto& [worker, bytes] : needed) devices[worker].memory = bytes;
        EXPECT_TRUE(fits(model, request, *hold_everything()));
        --*devices[needed.back().first].memory;
        EXPECT_FALSE(fits(model, request, *hold_everything()));
      }
}

// What one has may be enough once the other has what it needs.
TEST(Devices, OfMiddlingOnesThoseAloneAreToldThatNeedMore) {
  const Model model = make_zoo_model("mlp");
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.steering.stages_per_worker = 2;
  request.speed.capacities = with_speeds({1, 1});
  const Plan free = made(model, request);
  auto& devices = request.speed.capacities.workers;
  int alone = 0;
  for (const int64_t first : {10, 30, 60})
    for (const int64_t second : {10, 30, 60}) {
      SCOPED_TRACE(format("{} and {} percent", first, second));
      devices[0].memory = free.workers[0].peak_bytes * first / 100;
      devices[1].memory = free.workers[1].peak_bytes * second / 100;
      const auto needed = needed_memory(model, request);
      if (needed.size() == 1) ++alone;
      for (const auto& [worker, bytes] : needed) {
        EXPECT_GT(bytes, *devices[worker].memory + 1);
        devices[worker].memory = bytes;
      }
      EXPECT_TRUE(fits(model, request, *hold_everything()));
    }
  EXPECT_GT(alone, 0);
}

TEST(Devices, PlansKeepThemAndWhatWasAsked) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 3);
  request.speed.capacities = with_speeds({1, 2, 4});
  request.speed.capacities.links[{0, 2}] = {1e8, std::nullopt};
  request.steering.apart = {{"fc1", "fc2"}};
  request.steering.together = {{"fc3", "loss"}};
  request.steering.places = {{"fc1", 2}};
  const Plan plan = made(model, request);
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    const Plan back = read_plan(model, write_plan(model, plan, form), "p.json");
    EXPECT_EQ(back.request->capacities, request.speed.capacities);
    EXPECT_EQ(back.request->steering, request.steering);
    EXPECT_EQ(back.workers, plan.workers);  // predicted with them
    EXPECT_EQ(back.bottleneck, plan.bottleneck);
  }
}

TEST(Devices, CutsDivideByTheirSpeeds) {
  const Model model = make_zoo_model("mlp", {{20, 16, 12, 16}});
  for (const Cut cut : {Cut::kFeature, Cut::kBatch, Cut::kHybrid, Cut::kFree}) {
    SCOPED_TRACE(to_string(cut));
    PlanRequest request = request_of(cut, cut == Cut::kHybrid ? 4 : 2);
    request.shares.clear();
    request.batch = 32;
    request.micro_batches = 1;
    request.speed.capacities = with_speeds({1, 3, 1, 3});
    request.speed.capacities.workers.resize(static_cast<size_t>(request.workers));
    const Plan plan = made(model, request);
    const auto& shares = plan.division.nodes[0].shares;
    ASSERT_EQ(shares.size(), 2U);
    const ops::Shape extents = model.op(0).space().extents().with_batch(32);
    const auto size = [&](size_t i) {
      return static_cast<double>(ops::local_shape(shares[i].box, extents).elements());
    };
    EXPECT_GT(size(1) / size(0), 2);
    for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
      const std::string text = write_plan(model_for(model, request), plan, form);
      const Plan back = read_plan(model_for(model, request), text, "p.json");
      EXPECT_EQ(back.division.nodes, plan.division.nodes);
      if (form == PlanText::kDecisions && (cut == Cut::kFeature || cut == Cut::kBatch)) {
        EXPECT_THAT(text, Not(HasSubstr("layouts")));
      }
    }
  }
}

TEST(Devices, OneThatIsTooSlowForAnySampleIsNamed) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kBatch, 2);
  request.speed.capacities = with_speeds({1, 1000});
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("worker 0"), HasSubstr("leave it out of --devices")));
  request = free_request(2);
  request.speed.capacities = with_speeds({1, 1e6});
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("worker 0"), HasSubstr("leave it out of --devices")));
}

// It would have copies of what only moves the images, and nothing of its own.
TEST(Devices, OneThatIsTooSlowForAnyFeatureIsNamed) {
  const Model model = make_zoo_model("lenet5", {});
  for (const Cut cut : {Cut::kFeature, Cut::kFree}) {
    PlanRequest request = free_request(2);
    request.cut = cut;
    request.speed.capacities = with_speeds({1e6, 1});
    EXPECT_THAT(message_of([&] { made(model, request); }),
                AllOf(HasSubstr("worker 1 would have nothing to compute"),
                      HasSubstr("leave it out of --devices, with --workers 1")));
  }
  PlanRequest request = request_of(Cut::kFeature, 3);
  request.speed.capacities = with_speeds({1, 1e6, 1});
  EXPECT_THAT(message_of([&] { made(model, request); }),
              HasSubstr("leave workers 0, 2 out of --devices and number the others from 0, with "
                        "--workers 1"));
  request = request_of(Cut::kHybrid, 3);
  request.stages = 2;
  request.speed.capacities = with_speeds({1e6, 1, 1e6});
  EXPECT_THAT(message_of([&] { made(model, request); }),
              AllOf(HasSubstr("worker 1 would have nothing to compute"), HasSubstr("of stage 0"),
                    HasSubstr("with --workers 2")));
}

// Rows for each, whether of fewer micro-batches or of a larger batch.
TEST(Devices, OneThatIsTooSlowForAnySampleGetsOneAsIsSaid) {
  const Model model = small_mlp();
  const auto refusal = [&](const PlanRequest& request) {
    return message_of([&] { made(model, request); });
  };
  const auto number_behind = [](const std::string& text, const std::string& flag) {
    const size_t at = text.find("or use " + flag + " ");
    return at == std::string::npos ? 0 : std::stoi(text.substr(at + flag.size() + 8));
  };
  PlanRequest request = request_of(Cut::kBatch, 2);
  request.batch = 128;
  request.micro_batches = 8;
  request.speed.capacities = with_speeds({100, 1});
  request.micro_batches = number_behind(refusal(request), "--micro-batches");
  EXPECT_EQ(request.micro_batches, 2) << "64 rows are the fewest of which 1 in 101 is one";
  EXPECT_EQ(refusal(request), "no error");
  request.speed.capacities = with_speeds({1000, 1});
  request.batch = number_behind(refusal(request), "--batch");
  EXPECT_GT(request.batch, 128);
  EXPECT_EQ(refusal(request), "no error");
  request.batch -= request.micro_batches;
  EXPECT_NE(refusal(request), "no error") << request.batch;
  request.speed.capacities = with_speeds({1e9, 1});
  EXPECT_EQ(number_behind(refusal(request), "--batch"), 0) << "nobody has so many rows";
}

// Stack 1 of one product, whose columns are to be divided.
TEST(Devices, AProductOfOneStackIsDividedByColumns) {
  Builder b("stacks");
  const ValueId x = b.input("x", {ops::kBatch, 1, 4, 8});
  const ValueId w = b.parameter("w", {8, 30}, {ops::Initializer::Kind::kUniform, 0.5});
  const ValueId y = b.node("MatMul", {x, w}, {}, "product");
  b.loss(b.gemm(b.flatten(y, "flatten"), 6, "fc"));
  const Model model = b.build();
  for (const char* pattern : {"", "block-cyclic:2"}) {
    PlanRequest request = free_request(3);
    if (*pattern == 0) request.speed.capacities = with_speeds({1, 1, 2});
    request.steering.pattern = pattern;
    const Plan plan = made(model, request);
    const NodeId product = model.find_node("product");
    EXPECT_EQ(plan.division.nodes[static_cast<size_t>(product)].shares.size(), 3U) << pattern;
  }
}

}  // namespace
}  // namespace kerf::partitioner
