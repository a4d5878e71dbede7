#include "apps/report/fit.h"

#include <algorithm>
#include <utility>

#include "apps/report/table.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr auto kFitDrawnFor = std::chrono::milliseconds(100);
constexpr int kFitCells = 24;

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
  const size_t rows = std::min(points.size(), most_rows);
  Table table({"", "iterations", "objective", "train RMSE", "test RMSE"});
  for (size_t row = 0; row < rows; ++row) {
    const size_t place = rows == 1 ? points.size() - 1 : row * (points.size() - 1) / (rows - 1);
    const FitPoint& each = points[place];
    table.add({human_seconds(each.seconds), format("{}", each.iterations),
               format("{:.8g}", each.objective), format("{:.5f}", each.train_rmse),
               test_text(each)});
  }
  return table.text();
}

FitProgress::FitProgress(Progress::Options options, int64_t iterations)
    : options_(std::move(options)), iterations_(iterations) {
  if (!options_.now) options_.now = [] { return std::chrono::steady_clock::now(); };
}

void FitProgress::tell(const FitPoint& point) {
  const Progress::Time now = options_.now();
  if (!options_.terminal || now - drawn_ < kFitDrawnFor) return;
  drawn_ = now;
  bar_ = true;
  options_.write("\r\x1b[K" + line_of(point, options_.width ? options_.width() : 80));
}

std::string FitProgress::line_of(const FitPoint& point, int width) const {
  const auto cells = std::min<int64_t>(kFitCells, kFitCells * point.iterations / iterations_);
  std::string line = format("[{:<{}}] iteration {} of {}  train {:.4f}",
                            std::string(static_cast<size_t>(cells), '='), kFitCells,
                            point.iterations, iterations_, point.train_rmse);
  if (point.test_rmse) line += format("  test {:.4f}", *point.test_rmse);
  if (point.seconds > 0)
    line += format(
        "  {} updates/s",
        human_count(static_cast<long long>(static_cast<double>(point.updates) / point.seconds)));
  const auto room = static_cast<size_t>(std::max(1, width - 1));
  if (line.size() > room) line.resize(room);
  return line;
}

void FitProgress::abandon() {
  if (std::exchange(bar_, false)) options_.write("\n");
}

}  // namespace kerf::apps
