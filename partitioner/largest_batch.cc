// The largest batch whose plan fits.
#include <algorithm>
#include <utility>

#include "partitioner/tried_plan.h"

namespace kerf::partitioner {
namespace {

// The most samples of a micro-batch that fit under a cap. Peaks grow with samples almost in
// proportion, so that the next number to try is where the line through two known peaks meets the
// cap; where that gains little, it is halfway.
class LargestMicroBatch {
 public:
  LargestMicroBatch(const Model& model, PlanRequest request, const InFlight& in_flight)
      : model_(model), request_(std::move(request)), in_flight_(in_flight) {}

  int64_t find() {
    const int64_t fewest = fewest_of_any_plan();
    fits_ = try_with(fewest);
    if (!fits_.within) return fewest;
    above_.samples = end_ = kMostRows / request_.micro_batches + 1;
    bool halve = false;
    while (above_.samples - fits_.samples > 1) {
      const int64_t gap = above_.samples - fits_.samples;
      const Tried next = try_with(std::clamp(halve ? fits_.samples + gap / 2 : on_the_line(),
                                             fits_.samples + 1, above_.samples - 1));
      if (next.within)
        before_ = std::exchange(fits_, next);
      else
        above_ = next;
      halve = !halve && above_.samples < end_ && above_.samples - fits_.samples > gap / 2;
    }
    while (find_more()) continue;
    return fits_.samples;
  }

 private:
  struct Tried {
    int64_t samples = 0;
    bool within = false;
    std::optional<int64_t> peak = std::nullopt;  // of a plan, within the cap or not
  };

  // A search for plans under a cap may miss one where it finds one of a few samples more, and rows
  // that parts share evenly may fit where one less does not.
  bool find_more() {
    for (const int64_t more : {1, 2, 3, 5}) {
      const int64_t samples = fits_.samples + more;
      if (samples == above_.samples || samples >= end_) continue;
      const Tried next = try_with(samples);
      if (!next.within) continue;
      fits_ = next;
      return true;
    }
    return false;
  }

  Tried try_with(int64_t samples) {
    request_.batch = samples * request_.micro_batches;
    check_request(request_);
    Tried least{samples};
    for (const PlanRequest& way : ways_of(model_, request_)) {
      const Tried tried = try_way(way, samples);
      if (tried.within) return tried;
      if (tried.peak && (!least.peak || *tried.peak < *least.peak)) least = tried;
    }
    return least;
  }
  Tried try_way(const PlanRequest& way, int64_t samples) {
    try {
      const auto plan = try_plan(model_for(model_, way), way, in_flight_, true);
      if (!plan) return {samples};
      return {samples, is_within(plan, way), peak_of(*plan)};
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      return {samples};  // no plan at all
    }
  }

  // A cut by samples has no plan of fewer than it divides them over.
  int64_t fewest_of_any_plan() {
    PlanRequest asked = std::exchange(request_, request_.without_caps());
    int64_t none = 0;
    int64_t some = 1;
    while (some < request_.workers && !try_with(some).within)
      none = std::exchange(some, std::min<int64_t>(2 * some, request_.workers));
    while (some - none > 1) {
      const int64_t middle = none + (some - none) / 2;
      (try_with(middle).within ? some : none) = middle;
    }
    request_ = std::move(asked);
    return some;
  }

  int64_t on_the_line() const {
    const Tried& other = above_.peak ? above_ : before_;
    const int64_t most = 8 * fits_.samples;  // of what is tried at once beyond what is known
    if (!other.peak || !request_.memory)     // the caps are the devices' own
      return above_.samples < end_ ? fits_.samples + (above_.samples - fits_.samples) / 2
                                   : 2 * fits_.samples;
    const double slope = static_cast<double>(*other.peak - *fits_.peak) /
                         static_cast<double>(other.samples - fits_.samples);
    const double more = static_cast<double>(*request_.memory - *fits_.peak) / slope;
    return slope > 0 && more < static_cast<double>(most)
               ? fits_.samples + static_cast<int64_t>(more)
               : most;
  }

  const Model& model_;
  PlanRequest request_;
  const InFlight& in_flight_;
  int64_t end_ = 0;
  Tried fits_;    // the most that is known to fit
  Tried before_;  // the most before that
  Tried above_;   // the fewest that are known not to, or more than there may be
};

}  // namespace

int64_t largest_batch(const Model& model, PlanRequest request, const InFlight& in_flight) {
  const int micro_batches = request.micro_batches;
  request.given_sizes.clear();
  return LargestMicroBatch(model, std::move(request), in_flight).find() * micro_batches;
}

}  // namespace kerf::partitioner
