#include "runtime/memory_meter.h"

#include "runtime/error.h"

namespace kerf::runtime {

void MemoryMeter::throw_above_cap(size_t bytes, size_t current, size_t cap,
                                  const std::string& device) {
  throw Error(
      ErrorCode::kUnavailable,
      format("{} bytes ({}) more are above the cap: {} of {} are in use; what a plan was proved "
             "to take is enough, so please report this",
             bytes, human_bytes(static_cast<double>(bytes)),
             human_bytes(static_cast<double>(current)), human_bytes(static_cast<double>(cap))),
      device);
}

void MemoryMeter::refuse(size_t bytes, size_t capacity, const std::string& device) {
  subtract(bytes);
  throw Error(ErrorCode::kUnavailable,
              format("no memory for {} bytes ({}): {} of {} are in use by this process; take more "
                     "--workers, a smaller --batch or more --micro-batches",
                     bytes, human_bytes(static_cast<double>(bytes)),
                     human_bytes(static_cast<double>(current())),
                     human_bytes(static_cast<double>(capacity))),
              device);
}

}  // namespace kerf::runtime
