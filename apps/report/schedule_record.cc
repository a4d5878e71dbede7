#include "apps/report/schedule_record.h"

#include <algorithm>

#include "apps/report/table.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

// Rows of more actions than this are no text for anybody to look at.
constexpr int64_t kMostTold = 100'000;
constexpr size_t kMostDrawn = 4'000;  // columns

int64_t actions_of(const schedmp::Schedule& schedule) {
  int64_t count = 0;
  for (const auto& row : schedule.rows) count += std::ssize(row);
  return count;
}

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

std::string proof_text(const ScheduleRecord& record) {
  if (!record.verified)
    return format("not proved: {} actions are too many, it was only simulated\n",
                  actions_of(record.schedule));
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

std::string picture_of(const ScheduleRecord& record) {
  std::string picture = schedmp::draw_staircase(record.schedule, record.graph, record.costs);
  if (picture.find('\n') <= kMostDrawn && record.schedule.rows.size() <= 128) return picture + "\n";
  return "(too large to draw)\n\n";
}

}  // namespace

Json to_json(const ScheduleRecord& record) {
  const schedmp::Schedule& schedule = record.schedule;
  Json answer{{"name", schedule.name},
              {"workers", schedule.workers()},
              {"stages", schedule.stages()},
              {"micro_batches", schedule.micro_batches},
              {"actions", actions_of(schedule)},
              {"groups", schedule.groups},
              {"rows", actions_of(schedule) <= kMostTold ? rows_of(schedule) : Json(nullptr)},
              {"makespan", record.bubble.makespan},
              {"bubble_step", record.bubble.step},
              {"bubble_span", record.bubble.span},
              {"peak_activations", record.peak_activations},
              {"verified", record.verified ? Json(*record.verified) : Json(nullptr)},
              {"problems", record.problems},
              {"same_bits", record.same_bits}};
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
      "a step takes {} units; idle: {} of it, {} between each worker's first and last "
      "action\n",
      record.bubble.makespan, human_percent(record.bubble.step), human_percent(record.bubble.span));
  if (schedule.trains())
    text +=
        format("kept at once, by worker: {} micro-batches{}\n", peaks_text(record.peak_activations),
               schedule.stages() > schedule.workers() ? " of all its stages together" : "");
  text += proof_text(record);
  if (!record.same_bits)
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
