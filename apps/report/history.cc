#include "apps/report/history.h"

#include <utility>

#include "apps/report/table.h"
#include "runtime/error.h"
#include "runtime/format.h"
#include "runtime/time.h"

namespace kerf::apps {

namespace {

std::string value_text(const std::optional<double>& value, int digits) {
  return value ? format("{:.{}g}", *value, digits) : std::string();
}

}  // namespace

History::History(std::string counted, std::vector<Metric> metrics, const HistoryLimits& limits)
    : counted_(std::move(counted)), metrics_(std::move(metrics)), limits_(limits) {
  begin();
}

void History::begin(double elapsed) {
  begin_ns_ = runtime::now_ns() - static_cast<int64_t>(elapsed * 1e9);
}

double History::seconds() const {
  return static_cast<double>(runtime::now_ns() - begin_ns_) * 1e-9;
}

bool History::limit_is_reached(int64_t rounds) const {
  return (limits_.most_rounds > 0 && rounds >= limits_.most_rounds) ||
         (limits_.most_seconds > 0 && seconds() >= limits_.most_seconds);
}

void History::add(const HistoryPoint& point, bool keep) {
  KERF_CHECK(point.values.size() == metrics_.size(), "{} values of {} metrics", point.values.size(),
             metrics_.size());
  if (observer_) observer_(point);
  if (keep) points_.push_back(point);
}

double History::rounds_per_second() const {
  const double taken = points_.empty() ? 0 : points_.back().seconds;
  return taken > 0 ? static_cast<double>(points_.back().rounds) / taken : 0;
}

Json History::json() const {
  Json list = Json::array();
  for (const HistoryPoint& point : points_) {
    Json each{
        {counted_ + "s", point.rounds}, {"updates", point.updates}, {"seconds", point.seconds}};
    for (size_t i = 0; i < metrics_.size(); ++i)
      each[metrics_[i].name] = point.values[i] ? Json(*point.values[i]) : Json();
    list.push_back(std::move(each));
  }
  return list;
}

std::string History::table(size_t most_rows) const {
  std::vector<std::string> header{"", counted_ + "s", "updates"};
  for (const Metric& metric : metrics_) header.push_back(metric.title);
  Table table(std::move(header));
  for (const size_t place : told_places(points_.size(), most_rows)) {
    const HistoryPoint& point = points_[place];
    std::vector<std::string> row{human_seconds(point.seconds), format("{}", point.rounds),
                                 human_count(point.updates)};
    for (size_t i = 0; i < metrics_.size(); ++i)
      row.push_back(value_text(point.values[i], metrics_[i].digits));
    table.add(std::move(row));
  }
  return table.text();
}

HistoryProgress::HistoryProgress(Progress::Options options, const History& history, Part part)
    : DrawnLine(std::move(options)),
      history_(history),
      part_(std::move(part)),
      known_(history.metrics().size()) {
  const auto most = static_cast<double>(history.limits().most_rounds);
  if (!part_)
    part_ = [most](const HistoryPoint& point) {
      return most > 0 ? static_cast<double>(point.rounds) / most : 0;
    };
}

void HistoryProgress::tell(const HistoryPoint& point) {
  for (size_t i = 0; i < known_.size(); ++i)
    if (point.values[i]) known_[i] = point.values[i];
  draw([&] { return line_of(point); });
}

std::string HistoryProgress::line_of(const HistoryPoint& point) const {
  std::string line =
      format("{} {} {}", bar_of_part(part_(point)), history_.counted(), point.rounds);
  if (const int64_t most = history_.limits().most_rounds; most > 0) line += format(" of {}", most);
  for (size_t i = 0; i < known_.size(); ++i)
    if (known_[i]) line += format("  {} {}", history_.metrics()[i].title, value_text(known_[i], 6));
  return line + "  " + updates_a_second(point.updates, point.seconds);
}

}  // namespace kerf::apps
