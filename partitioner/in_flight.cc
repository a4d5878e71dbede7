#include "partitioner/in_flight.h"

#include <algorithm>

#include "partitioner/part.h"
#include "partitioner/stage_graph.h"

namespace kerf::partitioner {

namespace {

class HoldEverything final : public InFlight {
 public:
  std::vector<Flight> of(const Pipeline& pipeline, int micro_batches) const override {
    return std::vector<Flight>(pipeline.groups.size(), {micro_batches, micro_batches, 0});
  }
};

}  // namespace

std::vector<StageLists> lists_of_stages(const std::vector<Flight>& flights, int stages) {
  std::vector<StageLists> lists(static_cast<size_t>(stages));
  for (size_t group = 0; group < flights.size(); ++group) {
    const Flight& flight = flights[group];
    StageLists& of_stage = lists[group % lists.size()];
    of_stage.recomputes = of_stage.recomputes || flight.recomputed > 0;
    of_stage.versions = std::max(of_stage.versions, flight.versions);
    of_stage.ahead = std::max(of_stage.ahead, flight.ahead);
  }
  return lists;
}

std::unique_ptr<InFlight> hold_everything() { return std::make_unique<HoldEverything>(); }

}  // namespace kerf::partitioner
