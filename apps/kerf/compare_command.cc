// kerf compare: plans side by side, by what they were predicted to take.
#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "apps/kerf/commands.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/report/plan_record.h"
#include "apps/report/table.h"
#include "runtime/format.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

// A plan in a line: of its workers what the fullest or slowest has, of messages all.
struct Compared {
  std::string file;
  std::string source;  // of its model
  PlanRecord plan;
  double seconds = 0;
  double forward_flops = 0;
  int64_t weight_bytes = 0;
  int64_t peak_bytes = 0;
  partitioner::Traffic traffic;

  Compared(std::string from, std::string made_of, PlanRecord record)
      : file(std::move(from)), source(std::move(made_of)), plan(std::move(record)) {
    for (const partitioner::WorkerPrediction& worker : plan.workers) {
      seconds = std::max(seconds, worker.seconds);
      forward_flops = std::max(forward_flops, worker.forward_flops);
      weight_bytes = std::max(weight_bytes, worker.weight_bytes);
      peak_bytes = std::max(peak_bytes, plan.peak_bytes(worker));
      traffic.messages += worker.messages;
      traffic.bytes += worker.bytes_out;
    }
  }
};

Json json_of(const Compared& compared) {
  const PlanRecord& plan = compared.plan;
  Json json{{"file", compared.file},
            {"model", plan.model},
            {"source", compared.source},
            {"fingerprint", plan.fingerprint},
            {"cut", plan.cut},
            {"workers", plan.workers.size()},
            {"stages", plan.stages.size()},
            {"batch", plan.batch},
            {"micro_batches", plan.micro_batches},
            {"schedule", plan.schedule},
            {"seconds", compared.seconds},
            {"step_seconds", plan.step_seconds ? Json(*plan.step_seconds) : Json()},
            {"forward_flops", compared.forward_flops},
            {"weight_bytes", compared.weight_bytes},
            {"peak_bytes", compared.peak_bytes},
            {"messages", compared.traffic.messages},
            {"bytes", compared.traffic.bytes},
            {"cut_bytes", plan.cut_bytes()}};
  if (!plan.given_sizes.empty()) json["micro_batch_rows"] = plan.given_sizes;
  return json;
}

struct CompareCommand {
  std::vector<std::string> files;
  bool json = false;

  int run() const;
};

// What two lines cannot be compared by.
std::string differences(const std::vector<Compared>& all) {
  std::set<std::string> models;
  std::set<std::string> sources;  // a model of one name may have other sizes
  std::set<int64_t> batches;
  for (const Compared& each : all) {
    models.insert(each.plan.model);
    sources.insert(each.source);
    batches.insert(each.plan.batch);
  }
  std::string text;
  if (sources.size() > 1)
    text += format("\nthey are of {} models: {}\n", sources.size(),
                   fmt::join(models.size() == sources.size() ? models : sources, ", "));
  if (batches.size() > 1)
    text += format("\ntheir steps are of different batches: {} rows\n", fmt::join(batches, ", "));
  return text;
}

std::string text_of(const std::vector<Compared>& all, bool colour) {
  Table table({"plan", "cut", "workers", "stages", "batch", "schedule", "time/step", "of the first",
               "step", "weights", "peak", "messages", "bytes"});
  for (const Compared& each : all)
    table.add({each.file, each.plan.cut, format("{}", each.plan.workers.size()),
               format("{}", each.plan.stages.size()),
               format("{} in {}", each.plan.batch,
                      partitioner::sizes_in_short(each.plan.micro_batches, each.plan.given_sizes)),
               each.plan.schedule, human_seconds(each.seconds),
               all[0].seconds > 0 ? format("{:.2f}", each.seconds / all[0].seconds) : "-",
               each.plan.step_seconds ? human_seconds(*each.plan.step_seconds) : "-",
               bytes_text(each.weight_bytes), bytes_text(each.peak_bytes),
               human_count(each.traffic.messages), bytes_text(each.traffic.bytes)});
  return table.text(colour) +
         "\ntime, weights and peak: of the worker that has most of each; step: from its start to "
         "the last worker's end, as simulated; messages and bytes: of all workers in a step\n" +
         differences(all);
}

int CompareCommand::run() const {
  std::vector<Compared> all;
  for (const std::string& file : files) {
    const Planned planned = read_plan_of({}, file);
    const PlanSchedule found = fitting_schedule_of({}, planned);
    all.emplace_back(file, planned.source,
                     record_of(planned.model, planned.plan, found.schedule, planned.setting));
  }
  answer(
      json,
      [&] {
        Json list = Json::array();
        for (const Compared& each : all) list.push_back(json_of(each));
        return Json{{"plans", list}};
      },
      [&](bool colour) { return text_of(all, colour); });
  return 0;
}

}  // namespace

void add_compare_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "compare", "Lays plans side by side: what each was predicted to take, hold and send.");
  auto state = std::make_shared<CompareCommand>();
  command->add_option("PLAN", state->files, "What kerf plan --out wrote, or folders of runs")
      ->required()
      ->expected(1, -1);
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf plan lenet5 --out layers.json\n"
      "  kerf plan lenet5 --cut feature --out features.json\n"
      "  kerf compare layers.json features.json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
