// Moments of a CUDA stream, by events that take the time.
//
// Events tell how long they are apart. The first of a stretch of work is recorded where nothing is
// under way, and the host looks at its clock when it sees that the GPU has come to it: that, some
// 20 us late, is what both clocks are compared by.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/device.h"

namespace kerf::runtime {

class CudaTimeline final : public Timeline {
 public:
  CudaTimeline(int device, const Stream& stream);

  void begin() override;
  void mark() override;
  std::span<const int64_t> moments() override;

 private:
  struct Destroy {
    int device = 0;
    void operator()(cudaEvent_t event) const;
  };
  using TimedEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy>;
  TimedEvent make_event() const;
  void record(const TimedEvent& event) const;

  const int device_;
  const std::string where_;
  const cudaStream_t stream_;
  const TimedEvent first_;
  int64_t first_ns_ = 0;            // of the host's clock
  std::vector<TimedEvent> events_;  // as many as a stretch ever had
  size_t marked_ = 0;
  std::vector<int64_t> moments_;
};

}  // namespace kerf::runtime
