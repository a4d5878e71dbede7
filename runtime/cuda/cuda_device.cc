// A CUDA GPU: memory, streams, events and asynchronous copies of the CUDA runtime.
//
// Memory is plain cudaMalloc; what other processes open by CUDA IPC is whole blocks of the driver,
// because it is those that are opened. cudaFree waits for this process's work, so a Buffer may be
// destroyed while work that uses it is still under way. It knows nothing of other processes': what
// was exported is kept until this one ends.
#include <cstring>
#include <mutex>
#include <set>

#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/cuda_timeline.h"
#include "runtime/cuda/staged_work.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/memory_meter.h"

namespace kerf::runtime {

namespace {

// What export_memory() answers. The size is the exporter's word: whoever holds the run's token is
// believed that much.
struct MemoryHandle {
  cudaIpcMemHandle_t handle;
  uint64_t bytes = 0;
};
static_assert(sizeof(MemoryHandle) == 72 && std::is_trivially_copyable_v<MemoryHandle>);

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
  bool reaches_host_memory() const override { return false; }
  HostRegistration register_host(void* data, size_t bytes) override;
  bool exports_memory() const override { return true; }
  Buffer allocate_exportable(size_t bytes) override {
    return allocate((bytes + kExportedBlock - 1) / kExportedBlock * kExportedBlock);
  }
  std::string export_memory(const Buffer& memory) override;
  ImportedMemory import_memory(const std::string& handle, size_t bytes) override;
  void cap_memory(size_t bytes) override { meter_.set_cap(bytes); }
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
    const std::lock_guard lock(exporting_);
    if (exported_.contains(data)) return;
    ignore_cuda_error(cudaSetDevice(index_));
    ignore_cuda_error(cudaFree(data));
  }

 private:
  // Throws Error{kUnavailable} saying what was refused, why, and the way out.
  void need(cudaError_t status, const std::string& refused, const char* way_out) const;

  int index_;
  cudaDeviceProp properties_{};
  MemoryMeter meter_;
  std::mutex exporting_;
  std::set<void*> exported_;  // guarded by exporting_
};

void CudaDevice::need(cudaError_t status, const std::string& refused, const char* way_out) const {
  if (status == cudaSuccess) return;
  if (is_device_lost(status)) check_cuda(status, refused.c_str(), name());
  ignore_cuda_error(status);
  throw Error(ErrorCode::kUnavailable,
              format("{}: {} ({}, {}); {}", refused, cudaGetErrorString(status),
                     cudaGetErrorName(status), static_cast<int>(status), way_out),
              name());
}

Buffer CudaDevice::allocate(size_t bytes) {
  if (bytes == 0) return {};
  use_cuda_device(index_);
  const size_t taken = meter_.take(bytes, name());
  void* data = nullptr;
  const cudaError_t status =
      bytes > properties_.totalGlobalMem ? cudaErrorMemoryAllocation : cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    meter_.refuse(bytes, properties_.totalGlobalMem, name());
  }
  if (status != cudaSuccess) meter_.subtract(bytes);
  check_cuda(status, "cudaMalloc", name());
  meter_.keep(taken);
  return Buffer(this, data, bytes);
}

// The pointer stays what it is: kernels take it, not only copies.
HostRegistration CudaDevice::register_host(void* data, size_t bytes) {
  if (bytes == 0) return {};
  use_cuda_device(index_);
  int same_address = 0;
  check_cuda(
      cudaDeviceGetAttribute(&same_address, cudaDevAttrCanUseHostPointerForRegisteredMem, index_),
      "cudaDeviceGetAttribute", name());
  if (same_address == 0)
    throw Error(ErrorCode::kUnavailable,
                format("its kernels cannot use {} of memory of the host that the process shares; "
                       "use --transport inproc, or another GPU",
                       human_bytes(static_cast<double>(bytes))),
                name());
  need(cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
       format("cannot pin {} bytes ({}) of memory of the host", bytes,
              human_bytes(static_cast<double>(bytes))),
       "take fewer --slots, or free memory of the host");
  return {data, [index = index_](void* each) {
            ignore_cuda_error(cudaSetDevice(index));
            ignore_cuda_error(cudaHostUnregister(each));
          }};
}

std::string CudaDevice::export_memory(const Buffer& memory) {
  KERF_CHECK(memory.device() == this && memory.bytes() % kExportedBlock == 0,
             "{} exports what allocate_exportable() gave", name());
  use_cuda_device(index_);
  MemoryHandle made;
  made.bytes = memory.bytes();
  need(cudaIpcGetMemHandle(&made.handle, memory.data()),
       format("cannot share {} of its memory with other processes",
              human_bytes(static_cast<double>(made.bytes))),
       "use --transport shm");
  const std::lock_guard lock(exporting_);
  exported_.insert(memory.data());
  return {reinterpret_cast<const char*>(&made), sizeof made};
}

ImportedMemory CudaDevice::import_memory(const std::string& handle, size_t bytes) {
  if (bytes == 0) return {};
  MemoryHandle offered;
  if (handle.size() != sizeof offered)
    throw Error(ErrorCode::kProtocol, "a peer's handle is none of CUDA's", name());
  std::memcpy(&offered, handle.data(), sizeof offered);
  if (offered.bytes < bytes)
    throw Error(ErrorCode::kUnavailable,
                format("a peer's memory has {} of {} bytes", offered.bytes, bytes), name());
  use_cuda_device(index_);
  void* data = nullptr;
  need(cudaIpcOpenMemHandle(&data, offered.handle, cudaIpcMemLazyEnablePeerAccess),
       format("cannot open {} of another process's memory of a GPU",
              human_bytes(static_cast<double>(bytes))),
       "use --transport shm");
  return {static_cast<std::byte*>(data), [index = index_](std::byte* each) {
            ignore_cuda_error(cudaSetDevice(index));
            ignore_cuda_error(cudaIpcCloseMemHandle(each));
          }};
}

void check_there(int index) {
  const CudaSupport cuda = cuda_support();
  if (index >= 0 && index < cuda.devices) return;
  throw Error(
      ErrorCode::kUnavailable,
      format("cuda:{} is not there: {}", index,
             cuda.devices == 0 ? cuda.reason
                               : format("this host has {}", plural(cuda.devices, "CUDA device"))));
}

// What was never open is not lost.
template <class Do>
auto before_it_is_open(const Do& act) {
  try {
    return act();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeviceLost) throw;
    throw Error(ErrorCode::kUnavailable, error.message(), error.where());
  }
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index) {
  check_there(index);
  return before_it_is_open([&] { return std::make_unique<CudaDevice>(index); });
}

std::string cuda_identity(int index) {
  check_there(index);
  cudaDeviceProp properties{};
  before_it_is_open([&] {
    check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties",
               format("cuda:{}", index));
  });
  std::string text;
  for (const char each : properties.uuid.bytes)
    text += format("{:02x}", static_cast<unsigned char>(each));
  return text;
}

}  // namespace kerf::runtime
