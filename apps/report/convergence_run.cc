#include "apps/report/convergence_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/error.h"
#include "runtime/time.h"

namespace kerf::apps {

namespace {

constexpr int64_t kNotesInAPass = 20;
// Less of a fall is rounding.
constexpr double kFall = 1e-14;

double seconds_since(int64_t begin_ns) {
  return static_cast<double>(runtime::now_ns() - begin_ns) * 1e-9;
}

}  // namespace

ConvergenceRun::ConvergenceRun(const ConvergenceLimits& limits, int64_t pass, std::string file,
                               Observer observer)
    : limits_(limits), pass_(pass), file_(std::move(file)), observer_(std::move(observer)) {
  KERF_CHECK(pass >= 1, "a pass of {} updates", pass);
}

void ConvergenceRun::begin() { begin_ns_ = runtime::now_ns(); }

bool ConvergenceRun::limit_is_reached(int64_t updates) const {
  return (limits_.most_passes > 0 && updates / pass_ >= limits_.most_passes) ||
         (limits_.most_seconds > 0 && seconds_since(begin_ns_) >= limits_.most_seconds);
}

void ConvergenceRun::keep(const ConvergencePoint& point) {
  if (!std::isfinite(point.objective) || !std::isfinite(point.gap.value_or(0)))
    throw Error(ErrorCode::kUsage,
                "the objective is no finite number: squares of what is in the data are too large",
                file_);
  const bool is_due = point.updates >= next_note_;
  if (is_due) next_note_ = point.updates + std::max<int64_t>(1, pass_ / kNotesInAPass);
  if (is_due || point.gap) history_.push_back(point);
  if (observer_) observer_(point);
}

void ConvergenceRun::note(int64_t rounds, int64_t updates, double objective) {
  keep({rounds, updates, seconds_since(begin_ns_), objective, std::nullopt});
}

bool ConvergenceRun::check(int64_t rounds, int64_t updates, double objective, double gap) {
  const bool first = history_.empty();
  keep({rounds, updates, seconds_since(begin_ns_), objective, gap});
  const bool falls = first || objective < least_ * (1 - kFall) || gap < least_gap_ * (1 - kFall);
  in_vain_ = falls ? 0 : in_vain_ + 1;
  least_ = first ? objective : std::min(least_, objective);
  least_gap_ = first ? gap : std::min(least_gap_, gap);
  converged_ = gap <= limits_.tolerance;
  return converged_ || stalled() || limit_is_reached(updates);
}

}  // namespace kerf::apps
