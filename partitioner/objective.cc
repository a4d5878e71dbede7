#include "partitioner/objective.h"

namespace kerf::partitioner {

namespace {

class HoldEverything final : public Objective {
 public:
  int in_flight(int, int, int micro_batches) const override { return micro_batches; }
};

}  // namespace

std::unique_ptr<Objective> hold_everything() { return std::make_unique<HoldEverything>(); }

}  // namespace kerf::partitioner
