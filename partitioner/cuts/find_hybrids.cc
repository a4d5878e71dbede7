#include "partitioner/cuts/find_hybrids.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "partitioner/cuts/group_search.h"
#include "partitioner/cuts/hybrid.h"
#include "partitioner/in_parallel.h"
#include "partitioner/least_memory.h"
#include "partitioner/rewrite.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {
namespace {

constexpr size_t kMostGroups = 4;  // divisions into groups of any size

// "hybrid, 4 by sample then 3 by feature then 1"
std::string described(const Groups& groups) {
  std::vector<std::string> each;
  for (const Group& group : groups)
    each.push_back(group.shape.workers == 1
                       ? "1"
                       : format("{} by {}", group.shape.workers,
                                group.shape.way == Way::kSample ? "sample" : "feature"));
  return format("hybrid, {}", fmt::join(each, " then "));
}

class Finding {
 public:
  Finding(const Model& model, const PlanRequest& request, const InFlight& in_flight,
          const OnTry& on_try)
      : model_(model),
        request_(request),
        in_flight_(in_flight),
        on_try_(on_try),
        hybrid_(model, request) {}

  // The longest search goes first: that of groups.
  std::vector<FoundHybrid> find() {
    const bool in_groups = !is_out_of_reach(model_, request_);
    std::vector<Groups> groups;
    std::vector<FoundHybrid> found(static_cast<size_t>(std::max(0, request_.workers - 1)));
    for (size_t i = 0; i < found.size(); ++i) found[i].how = format("hybrid in {} stages", i + 2);
    in_parallel(
        found.size() + 1,
        [&](size_t i) {
          if (i > 0)
            make(found[i - 1], [&](FoundHybrid& one) { in_stages(static_cast<int>(i) + 1, one); });
          else if (in_groups)
            groups = best_groups(hybrid_.prices(), request_.workers, request_.micro_batches,
                                 kMostGroups);
        },
        [&](size_t i) { tell(i > 0 ? found[i - 1].how : "hybrid, groups of any size"); });
    const size_t stages = found.size();
    for (const Groups& each : groups) found.emplace_back().how = described(each);
    in_parallel(
        groups.size(),
        [&](size_t i) {
          make(found[stages + i], [&](FoundHybrid& one) { in_these(groups[i], one); });
        },
        [&](size_t i) { tell(found[stages + i].how); });
    return found;
  }

 private:
  void tell(const std::string& how) const {
    if (on_try_) on_try_(how);
  }

  static void make(FoundHybrid& found, const std::function<void(FoundHybrid&)>& search) {
    try {
      search(found);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      found.fault = std::current_exception();
    }
  }

  void in_stages(int stages, FoundHybrid& found) {
    PlanRequest request = request_;
    request.stages = stages;
    if (!request.is_capped()) {
      found.model = rewritten(model_, hybrid_.rewrites(request));
      found.assignment = hybrid_.make({found.model, request, in_flight_, {}});
      return;
    }
    if (exceeds_all_caps(least_memory(model_, request), request)) return;
    auto answer = plan_model_or_shortage(model_, request, in_flight_);
    auto* const planned = std::get_if<PlannedModel>(&answer);
    if (planned == nullptr) return;
    found.assignment = assignment_of(planned->plan);
    found.model = std::move(planned->model);
  }

  void in_these(const Groups& groups, FoundHybrid& found) const {
    found.model = rewritten(model_, rewrites_of_groups(model_, request_, groups));
    Assignment assignment = assigned_to_groups(found.model, request_, groups, hybrid_.bound());
    HybridCut::refuse_idle_parts(found.model, request_, assignment);
    found.assignment = std::move(assignment);
  }

  const Model& model_;
  const PlanRequest& request_;
  const InFlight& in_flight_;
  const OnTry& on_try_;
  HybridCut hybrid_;
};

}  // namespace

std::vector<FoundHybrid> find_hybrids(const Model& model, const PlanRequest& request,
                                      const InFlight& in_flight, const OnTry& on_try) {
  return Finding(model, request, in_flight, on_try).find();
}

}  // namespace kerf::partitioner
