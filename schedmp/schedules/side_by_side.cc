#include "schedmp/schedules/side_by_side.h"

#include <algorithm>

namespace kerf::schedmp {

namespace {

// By stage, for a micro-batch that goes forward: its moments after the first, and all 0 where each
// goes through all stages at once.
std::vector<int> delays_of(const Pipeline& pipeline) {
  const std::vector<int> hops = hops_to_the_end(pipeline);
  const int most = hops.empty() ? 0 : *std::max_element(hops.begin(), hops.end());
  std::vector<int> delays;
  for (size_t stage = 0; stage < hops.size(); ++stage) {
    const auto is_far = [&](int other) {
      return std::abs(hops[static_cast<size_t>(other)] - hops[stage]) > 1;
    };
    for (const auto* others : {&pipeline.graph.reads[stage], &pipeline.graph.gradients[stage]})
      if (std::any_of(others->begin(), others->end(), is_far)) return std::vector<int>(hops.size());
    delays.push_back(most - hops[stage]);
  }
  return delays;
}

void visit_all(const std::vector<std::vector<int>>& stages_by_delay, int micro_batches,
               const Visit& visit) {
  const auto longest = static_cast<int>(stages_by_delay.size()) - 1;
  for (int moment = 0; moment < micro_batches + longest; ++moment)
    for (int delay = std::min(longest, moment); delay >= std::max(0, moment - micro_batches + 1);
         --delay)
      for (const int stage : stages_by_delay[static_cast<size_t>(delay)])
        visit(stage, moment - delay);
}

}  // namespace

void visit_forward(const Pipeline& pipeline, int micro_batches, const Visit& visit) {
  std::vector<std::vector<int>> stages(1);  // by delay
  const std::vector<int> delays = delays_of(pipeline);
  for (size_t stage = 0; stage < delays.size(); ++stage) {
    const auto delay = static_cast<size_t>(delays[stage]);
    stages.resize(std::max(stages.size(), delay + 1));
    stages[delay].push_back(static_cast<int>(stage));
  }
  visit_all(stages, micro_batches, visit);
}

void visit_backward(const Pipeline& pipeline, int micro_batches, const Visit& visit) {
  std::vector<std::vector<int>> stages(1);  // by delay
  const std::vector<int> delays = delays_of(pipeline);
  const int most = delays.empty() ? 0 : *std::max_element(delays.begin(), delays.end());
  for (size_t stage = delays.size(); stage-- > 0;) {
    const auto delay = static_cast<size_t>(most - delays[stage]);
    stages.resize(std::max(stages.size(), delay + 1));
    stages[delay].push_back(static_cast<int>(stage));
  }
  visit_all(stages, micro_batches, visit);
}

}  // namespace kerf::schedmp
