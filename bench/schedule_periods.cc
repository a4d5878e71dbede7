// How long a step of a schedule takes where its actions sleep, beside what is simulated.
//
//   schedule_periods --schedule zbv --workers 4 --micro-batches 8 --costs 5,6,5
//                    [--factors 1,1.4,1.2] [--first 5] [--last 25]
//
// A crew of threads trains a perceptron of one small layer a stage, whose F, I and W sleep for so
// many milliseconds, those of stage S for so many times the factor number S, in turn. Measured from
// the end of the step --first to that of the step --last, at the loop depth of kerf train, with as
// many slots as it would have. Prints one line of JSON; schedule_periods.py runs all schedules.
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/json.h"
#include "schedmp/action_costs.h"
#include "schedmp/interpreter.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate_run.h"
#include "schedmp/training/lanes.h"
#include "tests/schedmp/layers.h"
#include "tests/schedmp/sleeping_training.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"

namespace {

using namespace kerf;
using partitioner::Model;
using partitioner::Plan;
using schedmp::Schedule;

struct Flags {
  std::string schedule = "1f1b";
  int workers = 4;
  int micro_batches = 8;
  std::string costs = "5,6,5";
  std::string factors = "1";
  int first = 5;
  int last = 25;
};

int whole(const std::string& flag, const std::string& text, int least, int most) {
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number < least || number > most)
    throw Error(ErrorCode::kUsage,
                format("'{}' is no whole number from {} to {}", text, least, most), flag);
  return number;
}

Flags parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (i + 1 == argc) throw Error(ErrorCode::kUsage, "it needs a value", flag);
    const std::string value = argv[++i];
    if (flag == "--schedule")
      flags.schedule = value;
    else if (flag == "--workers")
      flags.workers = whole(flag, value, 1, 64);
    else if (flag == "--micro-batches")
      flags.micro_batches = whole(flag, value, 1, 1024);
    else if (flag == "--costs")
      flags.costs = value;
    else if (flag == "--factors")
      flags.factors = value;
    else if (flag == "--first")
      flags.first = whole(flag, value, 1, 1 << 20);
    else if (flag == "--last")
      flags.last = whole(flag, value, 2, 1 << 20);
    else
      throw Error(ErrorCode::kUsage, "there is no such flag", flag);
  }
  if (flags.first >= flags.last)
    throw Error(ErrorCode::kUsage, "the first step comes before the last", "--first");
  return flags;
}

std::vector<double> factors_of(const std::string& text) {
  std::vector<double> factors;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    double factor = 0;
    const auto [stop, fault] = std::from_chars(text.data() + start, text.data() + end, factor);
    if (fault != std::errc() || stop != text.data() + end || !(factor > 0 && factor < 1e3))
      throw Error(ErrorCode::kUsage, format("'{}' must be numbers as in 1,1.4,1.2", text),
                  "--factors");
    factors.push_back(factor);
    start = end + 1;
  }
  return factors;
}

// As many slots as kerf train has, where nobody says how many.
partitioner::Setting setting_for(const Schedule& schedule, const schedmp::Pipeline& pipeline) {
  partitioner::Setting setting;
  setting.slots = std::max(2, schedmp::smallest_buffer(schedule, pipeline.graph));
  setting.optimizer_states = 0;
  return setting;
}

struct Run {
  explicit Run(Flags given)
      : flags(std::move(given)),
        pipeline(schedmp::chain_of_shape(flags.schedule, flags.workers)),
        schedule(schedmp::make_step(flags.schedule, pipeline, flags.micro_batches)),
        model(tests::layers(schedule.stages())),
        setting(setting_for(schedule, pipeline)),
        plan(tests::plan_of_layers(model, schedule, setting)) {
    if (const auto why = schedmp::why_it_cannot_run(schedule))
      throw Error(ErrorCode::kUsage, *why, flags.schedule);
    const schedmp::ActionCosts milliseconds = schedmp::parse_costs(flags.costs);
    const std::vector<double> factors = factors_of(flags.factors);
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      const double to_seconds = 1e-3 * factors[static_cast<size_t>(stage) % factors.size()];
      const schedmp::StageCosts& each = milliseconds.others;
      costs.stages.push_back({each.forward * to_seconds, each.input_gradient * to_seconds,
                              each.weight_gradient * to_seconds});
    }
  }

  double predicted() const {
    const auto parts = partitioner::lower(model, plan, schedmp::lowering_for(schedule));
    const auto verdict = schedmp::verify(model, plan, parts, schedule, setting);
    return schedmp::simulate_run(plan, parts, schedule, costs,
                                 schedmp::credits_of(verdict, setting.slots), flags.last)
        .period(static_cast<size_t>(flags.first - 1));
  }

  double measured() {
    const auto sleeps = std::make_shared<tests::Sleeps>();
    sleeps->costs = costs;
    const schedmp::TrainingFactories factories{
        [this](const std::string&) { return model; },
        [](const std::string&, schedmp::Split, const schedmp::DataRequest&) {
          return std::make_shared<tests::RandomDataset>(int64_t{4096}, tests::kLayerFeatures,
                                                        tests::kLayerClasses);
        }};
    schedmp::TrainingOptions options;
    options.model_source = model.name();
    options.dataset = "random";
    options.batch = plan.batch;
    options.epochs = 1 << 20;
    options.steps = flags.last;
    options.evaluate = false;
    options.optimizer.momentum = 0;
    options.setting = setting;
    options.trace_steps = 0;
    schedmp::Training program(factories, model, plan, schedule, options);
    const auto crew = tests::inproc_crew(
        flags.workers, {{"training", [&] {
                           return std::make_unique<tests::SleepingTraining>(factories, sleeps);
                         }}});
    schedmp::run(program, *crew, {std::max(4, flags.workers + 1), 1});
    crew->stop();
    const int64_t expected = int64_t{3} * schedule.stages() * flags.micro_batches * flags.last;
    KERF_CHECK(sleeps->count == expected, "{} sleeps instead of {}", sleeps->count.load(),
               expected);
    const auto end_of = [&](int step) {
      return program.steps().at(static_cast<size_t>(step - 1)).end_ns;
    };
    return static_cast<double>(end_of(flags.last) - end_of(flags.first)) * 1e-9 /
           (flags.last - flags.first);
  }

  Flags flags;
  schedmp::Pipeline pipeline;
  Schedule schedule;
  Model model;
  partitioner::Setting setting;
  Plan plan;
  schedmp::ActionCosts costs;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Run run(parse(argc, argv));
    const double predicted = run.predicted();
    const double measured = run.measured();
    const Json answer{{"schedule", run.flags.schedule},
                      {"workers", run.flags.workers},
                      {"micro_batches", run.flags.micro_batches},
                      {"predicted_seconds", predicted},
                      {"measured_seconds", measured}};
    std::printf("%s\n", answer.dump().c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "schedule_periods: %s\n", error.what());
    return exit_code(error.code());
  }
}
