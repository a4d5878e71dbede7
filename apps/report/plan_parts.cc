#include "apps/report/plan_parts.h"

#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "partitioner/complete_plan.h"
#include "partitioner/part_prediction.h"
#include "runtime/format.h"
#include "schedmp/schedules.h"

namespace kerf::apps {

namespace {

using partitioner::WorkerPrediction;

constexpr size_t kNamesShown = 16;  // of a stage, all
constexpr size_t kFirstShown = 8;   // of a longer one
constexpr size_t kLastShown = 4;

// Of a worker's step, as a person reads it.
struct Simulated {
  std::string copies;
  std::string idle;
};

// The cells that a worker's prediction and that of a part of it have in common.
template <class Prediction>
std::vector<std::string> cells(const std::vector<std::string>& before, const Prediction& each,
                               const Simulated& simulated, const std::string& peak) {
  std::vector<std::string> row = before;
  row.insert(row.end(), {human_flops(each.forward_flops), human_seconds(each.seconds),
                         simulated.copies, simulated.idle, bytes_text(each.weight_bytes),
                         bytes_text(each.activation_bytes), peak, human_count(each.messages),
                         bytes_text(each.bytes_out), bytes_text(each.bytes_in)});
  return row;
}

Simulated simulated_of(const PlanRecord& record, int worker) {
  const auto at = static_cast<size_t>(worker);
  return {at < record.copy_seconds.size() ? human_seconds(record.copy_seconds[at]) : "-",
          at < record.idle.size() ? human_percent(record.idle[at]) : "-"};
}

void add_worker(const PlanRecord& record, const WorkerPrediction& worker, Table& table) {
  std::vector<const PlanRecord::Part*> parts;
  for (const PlanRecord::Part& part : record.parts)
    if (part.worker == worker.worker) parts.push_back(&part);
  const std::string name = format("{}", worker.worker);
  const Simulated simulated = simulated_of(record, worker.worker);
  const std::string peak = bytes_text(record.peak_bytes(worker));
  const bool one = parts.size() == 1;
  int64_t sum = 0;
  for (const PlanRecord::Part* part : parts) {
    sum += part->operators;
    table.add(cells({name, format("{}", part->stage), human_count(part->operators)}, *part,
                    one ? simulated : Simulated(), one ? peak : ""));
  }
  if (!one)
    table.add(cells({name, parts.empty() ? "-" : "all", parts.empty() ? "-" : human_count(sum)},
                    worker, simulated, peak));
}

}  // namespace

std::vector<PlanRecord::Part> parts_of(const partitioner::Model& model,
                                       const partitioner::Plan& plan,
                                       const std::vector<partitioner::Part>& parts,
                                       const schedmp::Schedule& schedule) {
  std::vector<PlanRecord::Part> told;
  for (const partitioner::PartPrediction& each :
       partitioner::predict_parts(model, plan, parts, partitioner::request_of_plan(plan),
                                  *schedmp::in_flight_of(schedule)))
    told.push_back({.stage = each.stage,
                    .worker = each.worker,
                    .operators = each.operators,
                    .forward_flops = each.forward_flops,
                    .seconds = each.seconds,
                    .weight_bytes = each.weight_bytes,
                    .activation_bytes = each.activation_bytes,
                    .messages = each.messages,
                    .bytes_in = each.bytes_in,
                    .bytes_out = each.bytes_out});
  return told;
}

std::string workers_text(const PlanRecord& record, bool colour) {
  Table table({"worker", "stage", "operators", "forward", "time/step", "copies", "idle", "weights",
               "activations", "peak", "messages", "out", "in"});
  for (const WorkerPrediction& worker : record.workers) add_worker(record, worker, table);
  return table.text(colour);
}

// "0,1", and of two replicas "0,1 and 2,3".
std::string workers_text(const PlanRecord::Stage& stage) {
  const std::vector<int>& workers = stage.workers;
  const auto each = std::ssize(workers) / stage.replicas.value_or(1);
  std::string text;
  for (auto group = workers.begin(); group != workers.end(); group += each)
    text += format("{}{}", text.empty() ? "" : " and ", fmt::join(group, group + each, ","));
  return text;
}

std::string stages_text(const PlanRecord& record) {
  std::string text;
  for (size_t s = 0; s < record.stages.size(); ++s) {
    std::vector<std::string> names;
    for (const std::string& name : record.stages[s].nodes) names.push_back(in_line(name));
    text += format("stage {} on {}: ", s, workers_text(record.stages[s]));
    if (names.size() <= kNamesShown)
      text += format("{}\n", fmt::join(names, " "));
    else
      text += format("{} ... {} ({} operators)\n",
                     fmt::join(names.begin(), names.begin() + kFirstShown, " "),
                     fmt::join(names.end() - kLastShown, names.end(), " "), names.size());
  }
  return text;
}

}  // namespace kerf::apps
