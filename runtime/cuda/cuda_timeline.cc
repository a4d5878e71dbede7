#include "runtime/cuda/cuda_timeline.h"

#include "runtime/cuda/cuda_check.h"
#include "runtime/format.h"
#include "runtime/time.h"

namespace kerf::runtime {

void CudaTimeline::Destroy::operator()(cudaEvent_t event) const {
  ignore_cuda_error(cudaSetDevice(device));
  ignore_cuda_error(cudaEventDestroy(event));
}

CudaTimeline::CudaTimeline(int device, const Stream& stream)
    : device_(device),
      where_(format("cuda:{}", device)),
      stream_(static_cast<cudaStream_t>(stream.native())),
      first_(make_event()) {}

CudaTimeline::TimedEvent CudaTimeline::make_event() const {
  use_cuda_device(device_);
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, 0), "cudaEventCreateWithFlags", where_);
  return TimedEvent(event, {device_});
}

void CudaTimeline::record(const TimedEvent& event) const {
  use_cuda_device(device_);
  check_cuda(cudaEventRecord(event.get(), stream_), "cudaEventRecord", where_);
}

// Without cudaEventBlockingSync this looks again and again: waking up would take longer.
void CudaTimeline::begin() {
  marked_ = 0;
  record(first_);
  check_cuda(cudaEventSynchronize(first_.get()), "cudaEventSynchronize", where_);
  first_ns_ = now_ns();
}

void CudaTimeline::mark() {
  if (marked_ == events_.size()) events_.push_back(make_event());
  record(events_[marked_++]);
}

std::span<const int64_t> CudaTimeline::moments() {
  use_cuda_device(device_);
  moments_.clear();
  for (size_t i = 0; i < marked_; ++i) {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, first_.get(), events_[i].get()), "cudaEventElapsedTime",
               where_);
    moments_.push_back(first_ns_ + static_cast<int64_t>(static_cast<double>(ms) * 1e6));
  }
  return moments_;
}

}  // namespace kerf::runtime
