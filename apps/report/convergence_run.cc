#include "apps/report/convergence_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int64_t kNotesInAPass = 20;
// Less of a fall is rounding.
constexpr double kFall = 1e-14;

}  // namespace

double objective_of(const HistoryPoint& point) {
  return point.values[ConvergenceRun::kObjective].value();
}

std::optional<double> gap_of(const HistoryPoint& point) {
  return point.values[ConvergenceRun::kGap];
}

ConvergenceRun::ConvergenceRun(const ConvergenceLimits& limits, int64_t pass, std::string file)
    : limits_(limits),
      pass_(pass),
      file_(std::move(file)),
      history_("round",
               {{"objective", "objective", 8, Metric::Scale::kAboveLeast},
                {"gap", "gap", 2, Metric::Scale::kPowers}},
               {.most_seconds = limits.most_seconds}) {
  KERF_CHECK(pass >= 1, "a pass of {} updates", pass);
}

bool ConvergenceRun::limit_is_reached(int64_t updates) const {
  return (limits_.most_passes > 0 && updates / pass_ >= limits_.most_passes) ||
         history_.limit_is_reached(0);
}

double ConvergenceRun::way() const {
  if (converged_) return 1;
  if (!(first_gap_ > least_gap_) || limits_.tolerance <= 0) return 0;
  return std::log(first_gap_ / least_gap_) / std::log(first_gap_ / limits_.tolerance);
}

void ConvergenceRun::keep(int64_t rounds, int64_t updates, double objective,
                          std::optional<double> gap) {
  if (!std::isfinite(objective) || !std::isfinite(gap.value_or(0)))
    throw Error(ErrorCode::kUsage,
                "the objective is no finite number: squares of what is in the data are too large",
                file_);
  const bool is_due = updates >= next_note_;
  if (is_due) next_note_ = updates + std::max<int64_t>(1, pass_ / kNotesInAPass);
  history_.add(rounds, updates, {objective, gap}, is_due || gap.has_value());
}

void ConvergenceRun::note(int64_t rounds, int64_t updates, double objective) {
  keep(rounds, updates, objective, std::nullopt);
}

bool ConvergenceRun::check(int64_t rounds, int64_t updates, double objective, double gap) {
  const bool first = points().empty();
  if (first) first_gap_ = gap;
  const double dual = objective * (1 - gap);
  const bool helped = first || objective < least_ * (1 - kFall) || gap < least_gap_ * (1 - kFall) ||
                      dual > most_dual_ * (1 + kFall);
  in_vain_ = helped ? 0 : in_vain_ + 1;
  least_ = first ? objective : std::min(least_, objective);
  least_gap_ = first ? gap : std::min(least_gap_, gap);
  most_dual_ = first ? dual : std::max(most_dual_, dual);
  converged_ = gap <= limits_.tolerance;
  keep(rounds, updates, objective, gap);
  return converged_ || stalled() || limit_is_reached(updates);
}

}  // namespace kerf::apps
