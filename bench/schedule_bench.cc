// How many actions a second are unfolded in time, and proved, without a plan.
//
//   schedule_bench --benchmark_filter=Unfold
//
// Unfold: rows to times, under unit costs. Prove: order, the smallest safe number of messages, and
// rendezvous. Arguments: workers, micro-batches.
#include <benchmark/benchmark.h>

#include "schedmp/schedules.h"
#include "schedmp/unfold.h"
#include "schedmp/verify.h"

namespace {

using kerf::schedmp::Buffering;
using kerf::schedmp::Schedule;

struct Scene {
  kerf::schedmp::Pipeline pipeline;
  Schedule schedule;
};

Scene scene_of(const std::string& name, const benchmark::State& state) {
  const auto workers = static_cast<int>(state.range(0));
  Scene scene{kerf::schedmp::chain_of(kerf::schedmp::groups_of_shape(name, workers, 0)), {}};
  scene.schedule = kerf::schedmp::make_schedule(
      name, scene.pipeline, static_cast<int>(state.range(1)), {}, kerf::schedmp::kMostUnfolded);
  return scene;
}

void unfold(benchmark::State& state, const std::string& name) {
  const Scene scene = scene_of(name, state);
  for (auto _ : state)
    benchmark::DoNotOptimize(kerf::schedmp::unfold(scene.schedule, scene.pipeline.graph));
  state.SetItemsProcessed(state.iterations() * scene.schedule.actions());
}

void prove(benchmark::State& state, const std::string& name) {
  const Scene scene = scene_of(name, state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(check_order(scene.schedule));
    benchmark::DoNotOptimize(smallest_buffer(scene.schedule, scene.pipeline.graph));
    benchmark::DoNotOptimize(
        kerf::schedmp::unfold(scene.schedule, scene.pipeline.graph, {}, {Buffering::kRendezvous}));
  }
  state.SetItemsProcessed(state.iterations() * scene.schedule.actions());
}

}  // namespace

BENCHMARK_CAPTURE(unfold, 1f1b, "1f1b")
    ->Args({64, 512})
    ->Args({1024, 1024})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unfold, zbv, "zbv")->Args({64, 512})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unfold, interleaved, "interleaved")
    ->Args({64, 512})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prove, 1f1b, "1f1b")->Args({64, 512})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prove, zbv, "zbv")->Args({64, 512})->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
