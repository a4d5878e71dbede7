#include "partitioner/in_flight.h"

namespace kerf::partitioner {

namespace {

class HoldEverything final : public InFlight {
 public:
  int kept(int, int, int micro_batches) const override { return micro_batches; }
};

}  // namespace

std::unique_ptr<InFlight> hold_everything() { return std::make_unique<HoldEverything>(); }

}  // namespace kerf::partitioner
