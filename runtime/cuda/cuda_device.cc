// A CUDA GPU: memory, streams, events and asynchronous copies of the CUDA runtime.
//
// Memory is plain cudaMalloc, whose base other processes may open by CUDA IPC. cudaFree waits for
// the device, so a Buffer may be destroyed while work that uses it is still under way.
#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/cuda_timeline.h"
#include "runtime/cuda/staged_work.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/memory_meter.h"

namespace kerf::runtime {

namespace {

class CudaEvent : public Event {
 public:
  explicit CudaEvent(int index) : index_(index), where_(format("cuda:{}", index)) {
    use_cuda_device(index_);
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
               "cudaEventCreateWithFlags", where_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override {
    ignore_cuda_error(cudaSetDevice(index_));
    ignore_cuda_error(cudaEventDestroy(event_));
  }

  bool ready() const override {
    use_cuda_device(index_);
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) check_cuda(status, "cudaEventQuery", where_);
    ignore_cuda_error(status);
    return status == cudaSuccess;
  }
  void wait() const override {
    use_cuda_device(index_);
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize", where_);
  }
  void* native() const override { return event_; }

 private:
  int index_;
  std::string where_;
  cudaEvent_t event_ = nullptr;
};

class CudaStream : public Stream {
 public:
  explicit CudaStream(int index)
      : index_(index), where_(format("cuda:{}", index)), staged_(where_) {
    use_cuda_device(index_);
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags", where_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() override {
    ignore_cuda_error(cudaSetDevice(index_));
    ignore_cuda_error(cudaStreamSynchronize(stream_));  // staged work is ours
    ignore_cuda_error(cudaStreamDestroy(stream_));
  }

  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    use_cuda_device(index_);
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync",
               where_);
  }
  void fill_zero(void* to, size_t bytes) override {
    if (bytes == 0) return;
    use_cuda_device(index_);
    check_cuda(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync", where_);
  }
  void launch(HostWork& work) override {
    use_cuda_device(index_);
    staged_.enqueue(work, stream_);
  }
  void record(Event& event) override {
    KERF_CHECK(event.native() != nullptr, "{} records events of its own only", where_);
    use_cuda_device(index_);
    check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(event.native()), stream_),
               "cudaEventRecord", where_);
  }
  void wait(const Event& event) override {
    if (event.native() == nullptr) return event.wait();  // the CPU's; nothing for the GPU to await
    use_cuda_device(index_);
    check_cuda(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(event.native()), 0),
               "cudaStreamWaitEvent", where_);
  }
  void synchronize() override {
    use_cuda_device(index_);
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize", where_);
    staged_.collect();
  }
  void* native() const override { return stream_; }

 private:
  int index_;
  std::string where_;
  cudaStream_t stream_ = nullptr;
  StagedWork staged_;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {
    check_cuda(cudaGetDeviceProperties(&properties_, index), "cudaGetDeviceProperties", name());
    // Starts the driver's context now, not within the first step. Whoever waits for the device
    // sleeps and leaves the core to others, unless somebody opened it before us and decided
    // otherwise.
    const cudaError_t status =
        cudaInitDevice(index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
    if (status != cudaErrorSetOnActiveProcess) check_cuda(status, "cudaInitDevice", name());
    ignore_cuda_error(status);
    use_cuda_device(index);
    check_cuda(cudaFree(nullptr), "cudaFree", name());
  }

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return format("cuda:{}", index_); }
  std::string description() const override {
    return format("{}, {}, compute capability {}.{}", properties_.name,
                  human_bytes(static_cast<double>(properties_.totalGlobalMem)), properties_.major,
                  properties_.minor);
  }

  Buffer allocate(size_t bytes) override;
  PinnedMemory allocate_pinned(size_t bytes) override {
    if (bytes == 0) return {};
    use_cuda_device(index_);
    void* data = nullptr;
    check_cuda(cudaMallocHost(&data, bytes), "cudaMallocHost", name());
    return {static_cast<std::byte*>(data),
            [](std::byte* each) { ignore_cuda_error(cudaFreeHost(each)); }};
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CudaStream>(index_); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(index_); }
  std::unique_ptr<Timeline> make_timeline(Stream& stream) override {
    return std::make_unique<CudaTimeline>(index_, stream);
  }
  MemoryStats memory() const override { return meter_.stats(properties_.totalGlobalMem); }
  void reset_peak() override { meter_.reset_peak(); }

 protected:
  void release(void* data, size_t bytes) noexcept override {
    meter_.subtract(bytes);
    ignore_cuda_error(cudaSetDevice(index_));
    ignore_cuda_error(cudaFree(data));
  }

 private:
  int index_;
  cudaDeviceProp properties_{};
  MemoryMeter meter_;
};

Buffer CudaDevice::allocate(size_t bytes) {
  if (bytes == 0) return {};
  use_cuda_device(index_);
  void* data = nullptr;
  const cudaError_t status =
      bytes > properties_.totalGlobalMem ? cudaErrorMemoryAllocation : cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error(ErrorCode::kUnavailable,
                format("no memory for {} bytes ({}): {} of {} are in use by this process", bytes,
                       human_bytes(static_cast<double>(bytes)),
                       human_bytes(static_cast<double>(meter_.current())),
                       human_bytes(static_cast<double>(properties_.totalGlobalMem))),
                name());
  }
  check_cuda(status, "cudaMalloc", name());
  meter_.add(bytes);
  return Buffer(this, data, bytes);
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index) {
  const CudaSupport cuda = cuda_support();
  if (index < 0 || index >= cuda.devices)
    throw Error(ErrorCode::kUnavailable,
                format("cuda:{} is not there: {}", index,
                       cuda.devices == 0
                           ? cuda.reason
                           : format("this host has {}", plural(cuda.devices, "CUDA device"))));
  return std::make_unique<CudaDevice>(index);
}

}  // namespace kerf::runtime
