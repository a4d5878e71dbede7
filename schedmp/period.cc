#include "schedmp/period.h"

#include "schedmp/idle_share.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

Period period_of(const Schedule& endless, const partitioner::StageGraph& graph,
                 const ActionCosts& costs) {
  const ActionCosts steady = costs.without_jitter();
  const auto makespan = [&](int periods) {
    return bubble(unrolled(endless, periods), graph, steady).makespan;
  };
  const auto before = static_cast<int>(proving_periods(endless));
  Period period{(makespan(before + kMeanPeriods) - makespan(before)) / kMeanPeriods};
  double work = 0;
  for (size_t worker = 0; worker < endless.rows.size(); ++worker)
    for (size_t i = 0; i < endless.rows[worker].size(); ++i)
      work += steady.of(endless.rows[worker][i], static_cast<int>(worker), i);
  period.bubble = idle_share(work / endless.workers(), period.takes);
  return period;
}

}  // namespace kerf::schedmp
