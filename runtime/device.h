// Devices: where bytes live and where work is ordered.
//
// A Device hands out Buffers, Streams and Events and accounts for every byte it handed out. The CPU
// device's stream does everything before it returns; a CUDA device's stream is asynchronous. Code
// written against this interface is right for both: it orders work by streams and events only.
//
// Threads: a Device may be used from any thread; a Stream and an Event belong to one thread at a
// time. A Device must outlive everything that it handed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kerf::runtime {

// Memory of a device that other processes use is whole blocks of so many bytes: a driver shares no
// smaller ones.
inline constexpr size_t kExportedBlock = size_t{2} << 20U;

enum class DeviceKind { kCpu, kCuda };

// Bytes. `peak` is the largest `current` since the last reset_peak(). `capacity` 0: unknown.
struct MemoryStats {
  size_t current = 0;
  size_t peak = 0;
  size_t capacity = 0;
};

class Device;
class HostWork;

// Move-only bytes on a device, aligned to at least 64. Returned to its device on destruction.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* device, void* data, size_t bytes) : device_(device), data_(data), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }
  Device* device() const { return device_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

using PinnedMemory = std::shared_ptr<std::byte[]>;
// While it lives, memory of the host is known to a device. Not beyond that memory, nor the device.
using HostRegistration = std::shared_ptr<void>;
// Memory of a device that another process of the host allocated, mapped while this lives; not
// beyond the device.
using ImportedMemory = std::shared_ptr<std::byte>;

// A point in a stream's work. `ready` and `wait` see the last `Stream::record` of it.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool ready() const = 0;
  virtual void wait() const = 0;
  virtual void* native() const { return nullptr; }  // cudaEvent_t on a CUDA device
};

// Work in order. On an asynchronous device calls return at once, but for synchronize(), and for
// copies from or to host memory that is not pinned, which may wait until the bytes are staged.
class Stream {
 public:
  virtual ~Stream() = default;
  // Between host memory and the stream's device, or within either.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void fill_zero(void* to, size_t bytes) = 0;
  // Work of the host's processor (host_work.h). What it throws is thrown here, or by the next
  // synchronize() of the stream or wait() for an event behind it.
  virtual void launch(HostWork& work) = 0;
  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;
  virtual void synchronize() = 0;
  virtual void* native() const { return nullptr; }  // cudaStream_t on a CUDA device
};

// Moments in a stream's work: when the device came to them, on the host's clock (time.h), to some
// 20 us on another device than the CPU. Belongs to the stream's thread.
class Timeline {
 public:
  virtual ~Timeline() = default;
  // Forgets what was marked. May wait for what is under way in the stream.
  virtual void begin() = 0;
  // When all is done that was enqueued before.
  virtual void mark() = 0;
  // Of each mark() since begin(), in order, nanoseconds; after Stream::synchronize(). Valid until
  // the next begin() or mark().
  virtual std::span<const int64_t> moments() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;         // "cpu", "cuda:0"
  virtual std::string description() const = 0;  // for people: model, cores or memory

  // Throws Error{kUnavailable} naming the device and the bytes when memory is short. 0 bytes give a
  // Buffer that is false.
  virtual Buffer allocate(size_t bytes) = 0;
  // Memory of the host that the device's streams copy from and to without staging, aligned to at
  // least 64; not counted. Throws as allocate(); null for 0 bytes. May outlive the device.
  virtual PinnedMemory allocate_pinned(size_t bytes) = 0;
  // Whether streams take all memory of the host as it is. Otherwise what is neither pinned nor
  // registered is staged by copies, and out of reach for kernels.
  virtual bool reaches_host_memory() const { return true; }
  // Makes whole pages of the host, which others allocated and which may be written, like pinned
  // memory; not counted. Null for 0 bytes, and where the device reaches them anyhow. Throws
  // Error{kUnavailable} that names the device and the bytes.
  virtual HostRegistration register_host(void* /*data*/, size_t /*bytes*/) { return {}; }

  // Whether other processes of the host that use the same hardware can share memory of it.
  virtual bool exports_memory() const { return false; }
  // As allocate(), but in whole blocks of kExportedBlock, as export_memory() needs it.
  virtual Buffer allocate_exportable(size_t bytes);
  // How another process imports it; valid while the Buffer lives. Throws Error{kUnavailable} where
  // the device cannot.
  virtual std::string export_memory(const Buffer& memory);
  // `handle` comes from outside: throws Error{kProtocol} where it is none, Error{kUnavailable}
  // where the memory is out of reach or smaller than `bytes`. Null for 0 bytes; not counted.
  virtual ImportedMemory import_memory(const std::string& handle, size_t bytes);

  // From now on allocate() throws Error{kUnavailable}, naming the cap, where more than so many
  // bytes would be in use. 0: no cap.
  virtual void cap_memory(size_t bytes) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  // Of a stream of this device, which outlives it.
  virtual std::unique_ptr<Timeline> make_timeline(Stream& stream) = 0;
  virtual MemoryStats memory() const = 0;
  virtual void reset_peak() = 0;

 protected:
  friend class Buffer;
  virtual void release(void* data, size_t bytes) noexcept = 0;
};

std::unique_ptr<Device> make_cpu_device();
// Throws Error{kUnavailable} where there is no such device or the build has no CUDA.
std::unique_ptr<Device> make_cuda_device(int index);
// What there is of CUDA here. `reason`: where no device can be used, why, for people; else empty.
struct CudaSupport {
  bool built = false;
  int devices = 0;
  std::string reason = {};
};
CudaSupport cuda_support();
// "cpu" or "cuda:N". Throws Error{kUsage} on another name.
std::unique_ptr<Device> make_device(const std::string& name);
// What names the hardware of that device in every process: of a GPU its UUID, of a CPU nothing.
// Throws as make_device().
std::string device_identity(const std::string& name);
// Of the device `index` of CUDA. Throws as make_cuda_device().
std::string cuda_identity(int index);
// Every device of this host, the CPU first.
std::vector<std::string> device_names();

}  // namespace kerf::runtime
