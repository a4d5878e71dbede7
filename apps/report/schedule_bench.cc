#include "apps/report/schedule_bench.h"

#include <algorithm>
#include <limits>

#include "apps/report/table.h"
#include "partitioner/micro_batch_sizes.h"
#include "runtime/format.h"

namespace kerf::apps {

std::optional<double> BenchedSchedule::measured_seconds() const {
  if (measured_steps.empty()) return std::nullopt;
  std::vector<double> sorted = measured_steps;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

std::vector<std::pair<std::string, std::string>> wrong_order(
    const std::vector<BenchedSchedule>& all) {
  std::vector<std::pair<std::string, std::string>> wrong;
  for (const BenchedSchedule& first : all)
    for (const BenchedSchedule& second : all) {
      const auto a = first.measured_seconds();
      const auto b = second.measured_seconds();
      if (!a || !b || !first.simulated_seconds || !second.simulated_seconds) continue;
      if (*second.simulated_seconds > *first.simulated_seconds * (1 + kTellsApart) && *a >= *b)
        wrong.emplace_back(first.name, second.name);
    }
  return wrong;
}

void sort_by_time(std::vector<BenchedSchedule>& all) {
  const auto key = [](const BenchedSchedule& each) {
    const auto measured = each.measured_seconds();
    return std::pair(!measured, measured.value_or(each.simulated_seconds.value_or(
                                    std::numeric_limits<double>::infinity())));
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

namespace {

template <class T>
Json if_any(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::optional<double> to_simulated(const BenchedSchedule& each) {
  const auto measured = each.measured_seconds();
  if (!measured || !each.simulated_seconds) return std::nullopt;
  return *measured / *each.simulated_seconds;
}

std::optional<double> rows_per_second(const BenchedSchedule& each, int64_t batch) {
  const auto seconds = each.measured_seconds();
  return seconds && *seconds > 0 ? std::optional(static_cast<double>(batch) / *seconds)
                                 : std::nullopt;
}

Json json_of(const std::vector<BenchedSchedule>& all, int64_t batch) {
  Json list = Json::array();
  for (const BenchedSchedule& each : all) {
    list.push_back({{"schedule", each.name},
                    {"stages", each.stages},
                    {"micro_batches", each.micro_batches},
                    {"in_flight", each.in_flight},
                    {"peak_bytes", if_any(each.peak_bytes)},
                    {"simulated_seconds", if_any(each.simulated_seconds)},
                    {"bubble", each.simulated_seconds ? Json(each.bubble) : Json()},
                    {"measured_seconds", if_any(each.measured_seconds())},
                    {"measured_to_simulated", if_any(to_simulated(each))},
                    {"rows_per_second", if_any(rows_per_second(each, batch))},
                    {"steps", each.measured_steps},
                    {"why_not", each.why_not.empty() ? Json() : Json(each.why_not)}});
    if (!each.given_sizes.empty()) list.back()["micro_batch_rows"] = each.given_sizes;
  }
  return list;
}

std::string seconds_text(const std::optional<double>& seconds) {
  return seconds ? human_seconds(*seconds) : "-";
}

bool is_marked(const std::string& name,
               const std::vector<std::pair<std::string, std::string>>& wrong) {
  return std::any_of(wrong.begin(), wrong.end(),
                     [&](const auto& pair) { return pair.first == name || pair.second == name; });
}

// Each once, with all that it is the reason of.
std::string reasons_of(const std::vector<BenchedSchedule>& all) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const BenchedSchedule& each : all) {
    if (each.why_not.empty()) continue;
    const auto same = std::ranges::find_if(
        reasons, [&](const auto& reason) { return reason.first == each.why_not; });
    if (same == reasons.end())
      reasons.push_back({each.why_not, {each.name}});
    else
      same->second.push_back(each.name);
  }
  std::string text;
  for (const auto& [why, names] : reasons) text += format("{}: {}\n", fmt::join(names, ", "), why);
  return text;
}

std::string table_of(const std::vector<BenchedSchedule>& all, int64_t batch, bool colour) {
  const auto wrong = wrong_order(all);
  Table table({"schedule", "stages", "micro-batches", "in flight", "memory", "simulated", "bubble",
               "measured", "to simulated", "rows/s"});
  for (const BenchedSchedule& each : all) {
    const auto ratio = to_simulated(each);
    const auto pace = rows_per_second(each, batch);
    table.add({each.name + (is_marked(each.name, wrong) ? " *" : ""), format("{}", each.stages),
               partitioner::sizes_in_short(each.micro_batches, each.given_sizes),
               format("{}", each.in_flight), each.peak_bytes ? bytes_text(*each.peak_bytes) : "-",
               seconds_text(each.simulated_seconds),
               each.simulated_seconds ? human_percent(each.bubble) : "-",
               seconds_text(each.measured_seconds()), ratio ? format("{:.3f}", *ratio) : "-",
               pace ? human_count(static_cast<long long>(*pace)) : "-"});
  }
  std::string text = table.text(colour);
  for (const auto& [first, second] : wrong)
    text += format("* {} was simulated to take less than {}, and did not\n", first, second);
  return text + reasons_of(all);
}

}  // namespace

Json to_json(const ScheduleBench& bench) {
  Json json{
      {"model", bench.model},
      {"data", bench.data.empty() ? Json() : Json(bench.data)},
      {"workers", bench.workers},
      {"batch", bench.batch},
      {"steps", bench.steps},
      {"own_memory",
       {{"schedules", json_of(bench.own, bench.batch)}, {"wrong_order", wrong_order(bench.own)}}},
      {"equal_memory",
       {{"cap_bytes", bench.cap},
        {"cap_of", bench.cap_of},
        {"schedules", json_of(bench.equal, bench.batch)},
        {"wrong_order", wrong_order(bench.equal)}}}};
  if (!bench.given_sizes.empty()) json["micro_batch_rows"] = bench.given_sizes;
  return json;
}

std::string text_of(const ScheduleBench& bench, bool colour) {
  std::string text = format("{} on {}, {} a step", bench.model, plural(bench.workers, "worker"),
                            plural(bench.batch, "row"));
  if (!bench.given_sizes.empty())
    text += " in " + partitioner::sizes_in_words(0, bench.given_sizes);
  text += bench.data.empty()
              ? "; simulated by the planner's prices, nothing ran\n"
              : format(
                    " of {}; simulated by what F, I, W and U took here; measured is the median "
                    "of {}\n",
                    bench.data, plural(bench.steps, "step"));
  text += "\nat their own memory:\n" + table_of(bench.own, bench.batch, colour);
  if (!bench.equal.empty())
    text += format("\nat equal memory, {} a worker ({}):\n", bytes_text(bench.cap), bench.cap_of) +
            table_of(bench.equal, bench.batch, colour);
  return text +
         "\nmemory: of the fullest worker, as proved; in flight: micro-batches that a worker "
         "keeps, "
         "of all its stages together; bubble: of all workers' time, what they are idle\n";
}

}  // namespace kerf::apps
