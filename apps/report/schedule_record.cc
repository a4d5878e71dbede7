#include "apps/report/schedule_record.h"

#include <algorithm>

#include "apps/report/table.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

// Rows of more actions than this are no text for anybody to look at.
constexpr int64_t kMostTold = 100'000;
constexpr double kMostDrawn = 4'000;  // columns
constexpr int kMostDrawnWorkers = 128;

Json rows_of(const schedmp::Schedule& schedule) {
  Json rows = Json::array();
  for (const auto& row : schedule.rows) {
    Json actions = Json::array();
    for (const auto& action : row) actions.push_back(schedmp::to_string(action));
    rows.push_back(std::move(actions));
  }
  return rows;
}

Json buffer_of(schedmp::Buffering buffering) {
  if (buffering.messages == schedmp::Buffering::kRendezvous) return "rendezvous";
  if (buffering.messages == schedmp::Buffering::kUnbounded) return "unbounded";
  return buffering.messages;
}

// "4 3 2 1", or of many the most and the least.
std::string peaks_text(const std::vector<int>& peaks) {
  if (peaks.size() <= 16) return format("{}", fmt::join(peaks, " "));
  const auto [least, most] = std::minmax_element(peaks.begin(), peaks.end());
  return format("{} to {}", *least, *most);
}

// Of all workers' time until the end.
schedmp::Idle share_of_all(const ScheduleRecord& record) {
  schedmp::Idle all;
  const double time = record.bubble.makespan * record.schedule.workers();
  for (const schedmp::Idle& each : record.idle) {
    all.fill += each.fill / time;
    all.dependency += each.dependency / time;
    all.communication += each.communication / time;
    all.imbalance += each.imbalance / time;
    all.drain += each.drain / time;
  }
  return all;
}

Json idle_json(const ScheduleRecord& record) {
  if (record.idle.empty() || record.bubble.makespan == 0) return nullptr;
  const schedmp::Idle all = share_of_all(record);
  return {{"fill", all.fill},
          {"dependency", all.dependency},
          {"communication", all.communication},
          {"imbalance", all.imbalance},
          {"drain", all.drain}};
}

std::string idle_text(const ScheduleRecord& record) {
  if (record.idle.empty() || record.bubble.makespan == 0) return {};
  const schedmp::Idle all = share_of_all(record);
  return format(
      "of that {} until each worker's first action, {} for what others compute, {} for messages, "
      "{} "
      "as others have more to do, {} after its last\n",
      human_percent(all.fill), human_percent(all.dependency), human_percent(all.communication),
      human_percent(all.imbalance), human_percent(all.drain));
}

bool knows_bytes(const ScheduleRecord& record) {
  return std::any_of(record.kept_peaks.begin(), record.kept_peaks.end(),
                     [](const schedmp::KeptPeak& peak) { return peak.bytes > 0; });
}

// Of each worker when it first keeps the most, or of many the first and the last of those moments.
std::string moments_text(const std::vector<schedmp::KeptPeak>& peaks,
                         double schedmp::KeptPeak::*moment) {
  std::vector<double> moments;
  for (const schedmp::KeptPeak& peak : peaks) moments.push_back(peak.*moment);
  if (moments.size() > 16) {
    std::sort(moments.begin(), moments.end());
    return format("{:.6g} to {:.6g}", moments.front(), moments.back());
  }
  return format("{:.6g}", fmt::join(moments, " "));
}

std::string kept_text(const ScheduleRecord& record) {
  const schedmp::Schedule& schedule = record.schedule;
  if (!schedule.trains()) return {};
  std::string text =
      format("kept at once, by worker: {} micro-batches{}", peaks_text(record.peak_activations),
             schedule.stages() > schedule.workers() ? " of all its stages together" : "");
  if (record.kept_peaks.empty()) return text + "\n";
  text += format(", first at {}\n", moments_text(record.kept_peaks, &schedmp::KeptPeak::time));
  if (!knows_bytes(record)) return text;
  std::vector<double> sizes;
  for (const schedmp::KeptPeak& peak : record.kept_peaks) sizes.push_back(peak.bytes);
  std::vector<std::string> told;
  if (sizes.size() > 16) {
    std::sort(sizes.begin(), sizes.end());
    sizes = {sizes.front(), sizes.back()};
  }
  for (const double bytes : sizes) told.push_back(human_bytes(bytes));
  return text + format("of activations, by worker: {}, first at {}\n",
                       fmt::join(told, record.kept_peaks.size() > 16 ? " to " : ", "),
                       moments_text(record.kept_peaks, &schedmp::KeptPeak::time_of_bytes));
}

Json kept_json(const ScheduleRecord& record) {
  if (record.kept.empty()) return nullptr;
  const bool bytes = knows_bytes(record);
  Json workers = Json::array();
  for (const std::vector<schedmp::Kept>& of_worker : record.kept) {
    Json one{{"times", Json::array()}, {"micro_batches", Json::array()}};
    for (const schedmp::Kept& each : of_worker) {
      one["times"].push_back(each.time);
      one["micro_batches"].push_back(each.micro_batches);
      if (bytes) one["bytes"].push_back(each.bytes);
    }
    workers.push_back(std::move(one));
  }
  return workers;
}

Json kept_peaks_json(const ScheduleRecord& record) {
  const bool bytes = knows_bytes(record);
  Json workers = Json::array();
  for (const schedmp::KeptPeak& peak : record.kept_peaks) {
    Json one{{"micro_batches", peak.micro_batches}, {"time", peak.time}};
    if (bytes) {
      one["bytes"] = peak.bytes;
      one["time_of_bytes"] = peak.time_of_bytes;
    }
    workers.push_back(std::move(one));
  }
  return workers;
}

std::string proof_text(const ScheduleRecord& record) {
  if (!record.verified)
    return format("not proved: {} actions are too many, it was only simulated\n",
                  record.schedule.actions());
  if (!*record.verified) return {};
  if (record.verdict) {
    const int least = record.verdict->smallest_safe_slots;
    return format("proved: every action once, legal order, no deadlock with {}\n{}\n",
                  plural(record.slots, "slot"),
                  least == 0 ? "safe even when every send waits for its receive"
                             : format("needs at least {}", plural(least, "slot")));
  }
  return format(
      "proved: every action once, legal order, no deadlock {} on the graph of its "
      "stages (--model or --plan to prove more)\nneeds at least {} under way from stage "
      "to stage{}\n",
      to_string(*record.buffering), plural(*record.smallest_buffer, "message"),
      *record.safe_under_rendezvous ? "; safe even when every send waits for its receive" : "");
}

std::vector<int> by_stage(const ScheduleRecord& record, int schedmp::StageVersions::*what) {
  std::vector<int> all;
  for (const schedmp::StageVersions& each : record.versions) all.push_back(each.*what);
  return all;
}

std::string versions_text(const ScheduleRecord& record) {
  if (record.versions.empty()) return {};
  return format("updates are late by, by stage: {}; versions of the weights kept: {}\n",
                peaks_text(by_stage(record, &schedmp::StageVersions::staleness)),
                peaks_text(by_stage(record, &schedmp::StageVersions::kept)));
}

std::string endless_text(const ScheduleRecord& record) {
  if (!record.endless) return {};
  std::string text = format("goes on for ever: periods of {}",
                            plural(record.endless->micro_batches, "micro-batch"));
  if (!record.period) return text + "\n";
  return text + format(", which take {:.6g} units each once under way; idle: {} of it\n",
                       record.period->takes, human_percent(record.period->bubble));
}

std::string found_text(const ScheduleRecord& record) {
  if (!record.found) return {};
  const schedmp::FoundSchedule& found = *record.found;
  const std::string sure =
      found.best ? std::string("the least there is under its cap")
                 : format("at most {} more than any under its cap, which takes {:.6g}",
                          human_percent(found.gap()), found.bound);
  return format("found from {}: {:.6g} units{}, {}; 1f1b takes {:.6g}\n", found.origin,
                found.makespan, record.costs.links.empty() ? "" : " where every message takes COMM",
                sure, record.of_1f1b);
}

std::string replicas_text(const ScheduleRecord& record) {
  const schedmp::Schedule& schedule = record.schedule;
  if (schedule.replicas == 1) return {};
  std::vector<int> counts(static_cast<size_t>(schedule.replicas));
  for (const int replica : schedule.replica_of) ++counts[static_cast<size_t>(replica)];
  return format("every stage has {} replicas, which take {} micro-batches\n", schedule.replicas,
                fmt::join(counts, " and "));
}

std::string picture_of(const ScheduleRecord& record) {
  const bool small = record.schedule.workers() <= kMostDrawnWorkers &&
                     schedmp::staircase_columns(record.schedule, record.unfolded) <= kMostDrawn;
  if (!small) return "(too large to draw)\n\n";
  return schedmp::draw_staircase(record.schedule, record.unfolded) + "\n";
}

}  // namespace

Json to_json(const ScheduleRecord& record) {
  const schedmp::Schedule& schedule = record.schedule;
  Json answer{{"name", schedule.name},
              {"workers", schedule.workers()},
              {"stages", schedule.stages()},
              {"micro_batches", schedule.micro_batches},
              {"actions", schedule.actions()},
              {"groups", schedule.groups},
              {"rows", schedule.actions() <= kMostTold ? rows_of(schedule) : Json(nullptr)},
              {"makespan", record.bubble.makespan},
              {"bubble_step", record.bubble.step},
              {"bubble_span", record.bubble.span},
              {"idle", idle_json(record)},
              {"peak_activations", record.peak_activations},
              {"kept", kept_json(record)},
              {"kept_peaks", kept_peaks_json(record)},
              {"verified", record.verified ? Json(*record.verified) : Json(nullptr)},
              {"problems", record.problems},
              {"same_bits", !record.schedule.any_weight_order},
              {"transfers", record.transfers ? "written" : "derived"}};
  if (record.makespan_p95) answer["makespan_p95"] = *record.makespan_p95;
  if (schedule.replicas > 1) {
    answer["replicas"] = schedule.replicas;
    answer["replica_of"] = schedule.replica_of;
  }
  if (record.found) {
    answer["found_from"] = record.found->origin;
    answer["lower_bound"] = record.found->bound;
    answer["gap"] = record.found->gap();
    answer["best"] = record.found->best;
    answer["makespan_1f1b"] = record.of_1f1b;
  }
  if (record.endless) {
    answer["period_micro_batches"] = record.endless->micro_batches;
    answer["period"] = record.period ? Json(record.period->takes) : Json(nullptr);
    answer["bubble_period"] = record.period ? Json(record.period->bubble) : Json(nullptr);
  }
  if (record.endless || !record.versions.empty()) {
    answer["staleness"] = by_stage(record, &schedmp::StageVersions::staleness);
    answer["versions"] = by_stage(record, &schedmp::StageVersions::kept);
  }
  if (record.buffering) answer["buffer"] = buffer_of(*record.buffering);
  if (record.smallest_buffer)
    answer["smallest_buffer"] =
        *record.smallest_buffer < 0 ? Json(nullptr) : Json(*record.smallest_buffer);
  if (record.safe_under_rendezvous) answer["safe_under_rendezvous"] = *record.safe_under_rendezvous;
  if (!record.verdict) return answer;
  answer["slots"] = record.slots;
  answer["smallest_safe_slots"] = record.verdict->smallest_safe_slots;
  answer["held"] = record.verdict->held;
  answer["peak_bytes"] = record.verdict->peak_bytes;
  return answer;
}

std::string text_of(const ScheduleRecord& record, bool colour) {
  const schedmp::Schedule& schedule = record.schedule;
  std::string text =
      format("{}: {}, {}, {}\n\n{}", schedule.name, plural(schedule.workers(), "worker"),
             plural(schedule.stages(), "stage"), plural(schedule.micro_batches, "micro-batch"),
             picture_of(record));
  text += format(
      "a step takes {:.10g} units; idle: {} of it, {} between each worker's first and last "
      "action\n",
      record.bubble.makespan, human_percent(record.bubble.step), human_percent(record.bubble.span));
  text += idle_text(record) + found_text(record) + endless_text(record) + versions_text(record) +
          replicas_text(record);
  if (record.makespan_p95)
    text += format("95 of 100 steps take {:.6g} units or less\n", *record.makespan_p95);
  text += kept_text(record);
  text += proof_text(record);
  if (record.transfers)
    text +=
        "its sends and receives were taken as the file has them; a run derives its own from what "
        "is computed\n";
  if (record.schedule.any_weight_order)
    text +=
        "its gradients of weights do not go up by micro-batch: their sums have other bits than "
        "those of other schedules\n";
  if (!record.verdict || !record.problems.empty()) return text;
  Table table({"worker", "peak"});
  for (size_t worker = 0; worker < record.verdict->peak_bytes.size(); ++worker)
    table.add({format("{}", worker),
               human_bytes(static_cast<double>(record.verdict->peak_bytes[worker]))});
  return text + "\n" + table.text(colour);
}

}  // namespace kerf::apps
