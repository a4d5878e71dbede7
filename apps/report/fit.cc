#include "apps/report/fit.h"

#include <algorithm>
#include <utility>

#include "apps/report/table.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

std::string test_text(const FitPoint& point) {
  return point.test_rmse ? format("{:.5f}", *point.test_rmse) : std::string();
}

}  // namespace

Json to_json(const std::vector<FitPoint>& points) {
  Json list = Json::array();
  for (const FitPoint& each : points)
    list.push_back({{"iterations", each.iterations},
                    {"updates", each.updates},
                    {"seconds", each.seconds},
                    {"objective", each.objective},
                    {"train_rmse", each.train_rmse},
                    {"test_rmse", each.test_rmse ? Json(*each.test_rmse) : Json()}});
  return list;
}

std::string fit_table(const std::vector<FitPoint>& points, size_t most_rows) {
  Table table({"", "iterations", "objective", "train RMSE", "test RMSE"});
  for (const size_t place : told_places(points.size(), most_rows)) {
    const FitPoint& each = points[place];
    table.add({human_seconds(each.seconds), format("{}", each.iterations),
               format("{:.8g}", each.objective), format("{:.5f}", each.train_rmse),
               test_text(each)});
  }
  return table.text();
}

FitProgress::FitProgress(Progress::Options options, int64_t iterations)
    : DrawnLine(std::move(options)), iterations_(iterations) {}

void FitProgress::tell(const FitPoint& point) {
  draw([&] { return line_of(point); });
}

std::string FitProgress::line_of(const FitPoint& point) const {
  std::string line =
      format("{} iteration {} of {}  train {:.4f}",
             bar_of_part(static_cast<double>(point.iterations) / static_cast<double>(iterations_)),
             point.iterations, iterations_, point.train_rmse);
  if (point.test_rmse) line += format("  test {:.4f}", *point.test_rmse);
  return line + "  " + updates_a_second(point.updates, point.seconds);
}

}  // namespace kerf::apps
