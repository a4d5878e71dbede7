// A step to run again and again: a model, a plan of it, what its workers do, and weights.
#pragma once

#include <gmock/gmock.h>

#include <utility>

#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "schedmp/schedules.h"
#include "tests/partitioner/random_models.h"
#include "tests/schedmp/executor_crew.h"
#include "tests/schedmp/random_rows.h"
#include "tests/schedmp/weights_file.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {

class Scene {
 public:
  // Workers compute on such devices.
  Scene(partitioner::Model model, partitioner::Plan plan, Schedule schedule,
        runtime::DeviceKind device = runtime::DeviceKind::kCpu)
      : model_(std::move(model)), plan_(std::move(plan)), schedule_(std::move(schedule)) {
    setting_.devices = {device};
    write_kept(model_, partitioner::Numbers::kWhole, folder_ / "weights.safetensors");
    const auto parts = lower(model_, plan_, lowering_for(schedule_, setting_));
    verdict_ = verify(model_, plan_, parts, schedule_, setting_);
    if (!verdict_.ok()) {
      setting_.slots = verdict_.smallest_safe_slots;
      verdict_ = verify(model_, plan_, parts, schedule_, setting_);
    }
    EXPECT_THAT(verdict_.problems, ::testing::IsEmpty());
  }
  kerf::tests::CrewStep run(const kerf::tests::StepOptions& options) const {
    return kerf::tests::run_crew(model_, plan_, schedule_, verdict_, setting_,
                                 folder_ / "weights.safetensors", options);
  }

 private:
  kerf::tests::TemporaryFolder folder_;
  partitioner::Model model_;
  partitioner::Plan plan_;
  Schedule schedule_;
  partitioner::Setting setting_{.slots = 1, .optimizer_states = 0};
  Verdict verdict_;
};

// Of exact numbers, on one to four workers.
inline Scene random_scene(int seed) {
  partitioner::Random random(static_cast<partitioner::Random::result_type>(seed));
  const partitioner::Model model = random_net(partitioner::Family::kExact, random);
  const partitioner::Plan plan = random_plan(model, {.workers = 1 + seed % 4}, random);
  return {model, plan, random_rows(model, plan, random)};
}

// An mlp in as many stages, by GPipe in four micro-batches.
inline Scene pipeline(int workers, runtime::DeviceKind device = runtime::DeviceKind::kCpu) {
  const partitioner::Model model = partitioner::make_zoo_model("mlp", {{8, 8, 8, 8, 3}});
  std::vector<std::vector<int>> groups;
  for (int worker = 0; worker < workers; ++worker) groups.push_back({worker});
  const Schedule schedule = gpipe(chain_of(groups), 4);
  partitioner::PlanRequest request;
  request.workers = workers;
  request.batch = 21;
  request.micro_batches = schedule.micro_batches;
  return {model, std::get<partitioner::Plan>(make_plan(model, request, *in_flight_of(schedule))),
          schedule, device};
}

}  // namespace kerf::schedmp
