#include "apps/report/sweep_record.h"

#include <algorithm>
#include <map>

#include "apps/report/table.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

using schedmp::SweptPoint;

// As RFC 4180 has it.
std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

// Which of the settings' members tell points apart.
bool differ(const SweepRecord& record, std::string SweepRecord::Setting::*member) {
  return std::any_of(record.settings.begin(), record.settings.end(), [&](const auto& setting) {
    return setting.*member != record.settings.front().*member;
  });
}

}  // namespace

Json to_json(const SweepRecord& record) {
  Json points = Json::array();
  for (const SweptPoint& point : record.points) {
    const SweepRecord::Setting& setting = record.of(point);
    Json one{{"name", point.schedule},
             {"workers", point.workers},
             {"micro_batches", point.micro_batches},
             {"costs", setting.costs.empty() ? Json(nullptr) : Json(setting.costs)},
             {"link", setting.link.empty() ? Json(nullptr) : Json(setting.link)},
             {"refused", point.refused.empty() ? Json(nullptr) : Json(point.refused)}};
    if (point.refused.empty()) {
      one["endless"] = point.endless;
      one["makespan"] = point.bubble.makespan;
      one["bubble_step"] = point.bubble.step;
      one["bubble_span"] = point.endless ? Json(nullptr) : Json(point.bubble.span);
      one["peak_activations"] = point.peak_activations;
    }
    points.push_back(std::move(one));
  }
  return {{"points", std::move(points)}};
}

std::string csv_of(const SweepRecord& record) {
  std::string text =
      "name,workers,micro_batches,costs,link,makespan,bubble_step,bubble_span,peak_activations,"
      "refused\n";
  for (const SweptPoint& point : record.points) {
    const SweepRecord::Setting& setting = record.of(point);
    text += format("{},{},{},{},{},", point.schedule, point.workers, point.micro_batches,
                   quoted(setting.costs), quoted(setting.link));
    if (!point.refused.empty())
      text += format(",,,,{}\n", quoted(point.refused));
    else
      text += format("{},{},{},{},\n", point.bubble.makespan, point.bubble.step,
                     point.endless ? std::string() : format("{}", point.bubble.span),
                     point.peak_activations);
  }
  return text;
}

std::string text_of(const SweepRecord& record, bool colour) {
  const bool costs = differ(record, &SweepRecord::Setting::costs);
  const bool links = differ(record, &SweepRecord::Setting::link);
  std::vector<std::string> header{"schedule", "workers", "micro-batches"};
  if (costs) header.emplace_back("costs");
  if (links) header.emplace_back("link");
  for (const char* name : {"takes", "idle", "in its span", "kept"}) header.emplace_back(name);
  Table table(header);
  std::map<std::string, std::vector<int>> refusals;  // of as many workers: of which micro-batches
  bool endless = false;
  for (const SweptPoint& point : record.points) {
    std::vector<std::string> row{point.schedule, format("{}", point.workers),
                                 format("{}", point.micro_batches)};
    if (costs) row.push_back(record.of(point).costs.empty() ? "-" : record.of(point).costs);
    if (links) row.push_back(record.of(point).link.empty() ? "-" : record.of(point).link);
    if (!point.refused.empty()) {
      for (const char* cell : {"refused", "", "", ""}) row.emplace_back(cell);
      refusals[format("{} of {}: {}", point.schedule, plural(point.workers, "worker"),
                      point.refused)]
          .push_back(point.micro_batches);
    } else {
      row.push_back(format("{:.6g}", point.bubble.makespan));
      row.push_back(human_percent(point.bubble.step));
      row.push_back(point.endless ? "-" : human_percent(point.bubble.span));
      row.push_back(format("{}", point.peak_activations));
      endless = endless || point.endless;
    }
    table.add(std::move(row));
  }
  std::string text = table.text(colour);
  text +=
      "\ntakes: units of a step; idle: of all workers' time until then, and between each one's "
      "first and last action;\nkept: micro-batches at once, of the worker with most\n";
  if (endless) text += "schedules that go on for ever: of a period, once it is under way\n";
  for (const auto& [refusal, micro_batches] : refusals)
    text += format("refused, of {} micro-batches: {}\n", fmt::join(micro_batches, ", "), refusal);
  return text;
}

}  // namespace kerf::apps
