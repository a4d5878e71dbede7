#include "runtime/standstill.h"

namespace kerf::runtime {
namespace {

constexpr std::chrono::milliseconds kBusyHost{500};

}  // namespace

Clock::duration Standstill::look(Clock::time_point now) {
  const Clock::duration beyond = now - looked_ - every_;
  looked_ = now;
  if (beyond < kBusyHost) return {};
  total_ += beyond;
  return beyond;
}

Deadline postponed(Deadline deadline, Clock::duration by) {
  return deadline > Deadline::max() - by ? Deadline::max() : deadline + by;
}

}  // namespace kerf::runtime
