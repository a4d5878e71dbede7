#include "partitioner/in_flight.h"

#include "partitioner/part.h"
#include "partitioner/stage_graph.h"

namespace kerf::partitioner {

namespace {

class HoldEverything final : public InFlight {
 public:
  std::vector<Flight> of(const Pipeline& pipeline, int micro_batches) const override {
    return std::vector<Flight>(static_cast<size_t>(pipeline.graph.stages()),
                               {micro_batches, micro_batches, 0});
  }
};

}  // namespace

std::vector<StageLists> lists_of_stages(const std::vector<Flight>& flights) {
  std::vector<StageLists> stages;
  for (const Flight& flight : flights)
    stages.push_back({flight.recomputed > 0, flight.versions, flight.ahead});
  return stages;
}

std::unique_ptr<InFlight> hold_everything() { return std::make_unique<HoldEverything>(); }

}  // namespace kerf::partitioner
