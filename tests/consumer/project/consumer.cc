// A user's program: a model of its own with a skip, cut over two workers, trained for some steps.
#include <cstdio>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "runtime/crew.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/training/training.h"

using namespace kerf;

namespace {

// Two classes that one feature tells apart.
class Stripes : public schedmp::FeatureRows {
 public:
  int64_t rows() const override { return 64; }
  int64_t features() const override { return 8; }
  int64_t classes() const override { return 2; }
  std::string fingerprint() const override { return "stripes"; }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t f = 0; f < 8; ++f)
        to.f32()[i * 8 + f] =
            f == 3 ? (rows[i] % 2 == 0 ? 1.0F : -1.0F)
                   : 0.1F * static_cast<float>((rows[i] * 7 + static_cast<int64_t>(f)) % 5);
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    for (size_t i = 0; i < rows.size(); ++i) to.i64()[i] = rows[i] % 2;
  }
};

partitioner::Model make_model(const std::string& /*source*/) {
  partitioner::Builder b("tiny");
  const auto x = b.input("x", {ops::kBatch, 8});
  const auto h = b.relu(b.gemm(x, 16));
  b.loss(b.gemm(b.add(h, b.gemm(h, 16)), 2));
  return b.build();
}

}  // namespace

int main(int argc, char** argv) {
  const schedmp::TrainingFactories factories{
      make_model, [](const std::string&, schedmp::Split, const schedmp::DataRequest&) {
        return std::make_shared<Stripes>();
      }};
  const schedmp::ProgramFactories programs{
      {"training", [&] { return schedmp::training_worker(factories); }}};
  if (const auto code = schedmp::serve_if_worker(argc, argv, programs)) return *code;
  try {
    const partitioner::Model model = make_model("tiny");
    partitioner::PlanRequest request{.workers = 2, .batch = 16, .micro_batches = 4};
    const auto plan = std::get<partitioner::Plan>(
        partitioner::make_plan(model, request, *schedmp::in_flight_of("1f1b")));
    schedmp::TrainingOptions options;
    options.model_source = "tiny";
    options.batch = 16;
    options.steps = 20;
    options.optimizer = {"sgd", 0.1, 0.9};
    schedmp::Training training(factories, model, plan, schedmp::make_schedule("1f1b", model, plan),
                               options);
    runtime::CrewOptions crew_options;
    crew_options.workers = 2;
    crew_options.transport = runtime::TransportKind::kInproc;
    crew_options.identity = schedmp::identity();
    crew_options.handlers = schedmp::handlers_of(programs);
    const auto crew = runtime::Crew::assemble(crew_options);
    schedmp::run(training, *crew);
    crew->stop();
    const double first = training.steps().front().loss;
    const double last = training.steps().back().loss;
    std::printf("loss %.4f -> %.4f\n", first, last);
    return last < first / 2 ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "consumer: error: %s\n", error.what());
    return exit_code(error.code());
  }
}
