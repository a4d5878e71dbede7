#include "apps/lda/lda_history.h"

#include <utility>

#include "apps/report/table.h"
#include "runtime/format.h"

namespace kerf::apps {

Json to_json(const std::vector<LdaPoint>& points) {
  Json list = Json::array();
  for (const LdaPoint& each : points)
    list.push_back({{"iterations", each.iterations},
                    {"updates", each.updates},
                    {"seconds", each.seconds},
                    {"log_likelihood", each.log_likelihood},
                    {"log_likelihood_per_token", each.per_token}});
  return list;
}

std::string lda_table(const std::vector<LdaPoint>& points, size_t most_rows) {
  Table table({"", "iterations", "log-likelihood", "per token"});
  for (const size_t place : told_places(points.size(), most_rows)) {
    const LdaPoint& each = points[place];
    table.add({human_seconds(each.seconds), format("{}", each.iterations),
               format("{:.8g}", each.log_likelihood), format("{:.5f}", each.per_token)});
  }
  return table.text();
}

std::vector<ConvergencePoint> as_convergence(const std::vector<LdaPoint>& points) {
  std::vector<ConvergencePoint> all;
  for (const LdaPoint& each : points) {
    ConvergencePoint& point = all.emplace_back();
    point.rounds = each.iterations;
    point.updates = each.updates;
    point.seconds = each.seconds;
    point.objective = -each.per_token;
  }
  return all;
}

LdaProgress::LdaProgress(Progress::Options options, int64_t iterations)
    : DrawnLine(std::move(options)), iterations_(iterations) {}

void LdaProgress::tell(const LdaPoint& point) {
  draw([&] { return line_of(point); });
}

std::string LdaProgress::line_of(const LdaPoint& point) const {
  return format(
      "{} iteration {} of {}  log-likelihood {:.4f} a token  {}",
      bar_of_part(static_cast<double>(point.iterations) / static_cast<double>(iterations_)),
      point.iterations, iterations_, point.per_token,
      updates_a_second(point.updates, point.seconds));
}

}  // namespace kerf::apps
