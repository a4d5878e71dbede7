#include "partitioner/most_rows.h"

#include <algorithm>
#include <utility>

#include "partitioner/least_memory.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {
namespace {

TriedRows try_way(const Model& model, const PlanRequest& way, const InFlight& in_flight) {
  TriedRows tried{way.largest_micro_batch()};
  try {
    const auto plan = try_plan(model_for(model, way), way, in_flight, true);
    if (!plan) return tried;
    tried.within = is_within(plan, way);
    tried.peak = peak_of(*plan);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;  // else there is no plan at all
  }
  return tried;
}

}  // namespace

TriedRows try_rows(const Model& model, const PlanRequest& request, const InFlight& in_flight) {
  check_request(request);
  TriedRows least{request.largest_micro_batch()};
  if (exceeds_all_caps(least_memory(model, request), request)) return least;
  for (const PlanRequest& way : ways_of(model, request)) {
    const TriedRows tried = try_way(model, way, in_flight);
    if (tried.within) return tried;
    if (tried.peak && (!least.peak || *tried.peak < *least.peak)) least = tried;
  }
  return least;
}

int64_t fewest_rows(const Model& model, const PlanRequest& request, const InFlight& in_flight) {
  if (request.cut == Cut::kLayer) return 1;
  PlanRequest free = request.without_caps();
  free.given_sizes.clear();
  const auto is_plan_of = [&](int64_t rows) {
    free.batch = rows * free.micro_batches;
    return try_rows(model, free, in_flight).within;
  };
  int64_t none = 0;
  int64_t some = 1;
  while (some < free.workers && !is_plan_of(some))
    none = std::exchange(some, std::min<int64_t>(2 * some, free.workers));
  while (some - none > 1) {
    const int64_t middle = none + (some - none) / 2;
    (is_plan_of(middle) ? some : none) = middle;
  }
  return some;
}

TriedRows MostRows::between(const TriedRows& fits, const TriedRows& above) {
  fits_ = fits;
  above_ = above;
  end_ = above.rows;
  bool halve = false;
  while (above_.rows - fits_.rows > 1) {
    const int64_t gap = above_.rows - fits_.rows;
    const TriedRows next = try_with_(
        std::clamp(halve ? fits_.rows + gap / 2 : on_the_line(), fits_.rows + 1, above_.rows - 1));
    if (next.within)
      before_ = std::exchange(fits_, next);
    else
      above_ = next;
    const bool may_halve = above_.peak || above_.rows < end_;  // what is above is known to be
    halve = !halve && may_halve && above_.rows - fits_.rows > gap / 2;
  }
  return fits_;
}

TriedRows MostRows::further() {
  while (find_more()) continue;
  return fits_;
}

bool MostRows::find_more() {
  for (const int64_t more : {1, 2, 3, 5}) {
    const int64_t rows = fits_.rows + more;
    if (rows == above_.rows || rows >= end_) continue;
    const TriedRows next = try_with_(rows);
    if (!next.within) continue;
    fits_ = next;
    return true;
  }
  return false;
}

// Far beyond what is known not at once.
int64_t MostRows::on_the_line() const {
  const TriedRows& other = above_.peak ? above_ : before_;
  if (!other.peak || !fits_.peak || !cap_)
    return above_.rows < end_ ? fits_.rows + (above_.rows - fits_.rows) / 2 : 2 * fits_.rows;
  const int64_t most = above_.peak ? above_.rows : 8 * fits_.rows;
  const double slope =
      static_cast<double>(*other.peak - *fits_.peak) / static_cast<double>(other.rows - fits_.rows);
  const double more = static_cast<double>(*cap_ - *fits_.peak) / slope;
  return slope > 0 && more < static_cast<double>(most) ? fits_.rows + static_cast<int64_t>(more)
                                                       : most;
}

}  // namespace kerf::partitioner
