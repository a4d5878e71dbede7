// The CPU: memory from a block pool, copies done when asked for, events that have always happened.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "runtime/cpu/block_pool.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/free_memory.h"
#include "runtime/host_work.h"
#include "runtime/memory_meter.h"
#include "runtime/time.h"

namespace kerf::runtime {

namespace {

constexpr std::align_val_t kCacheLine{64};

class CpuEvent : public Event {
 public:
  bool ready() const override { return true; }
  void wait() const override {}
};

class CpuStream : public Stream {
 public:
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void fill_zero(void* to, size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  void launch(HostWork& work) override { work.run(); }
  void record(Event& event) override {
    KERF_CHECK(event.native() == nullptr, "a CPU stream records events of the CPU only");
  }
  void wait(const Event& event) override { event.wait(); }
  void synchronize() override {}
};

// What was enqueued is done.
class CpuTimeline : public Timeline {
 public:
  void begin() override { moments_.clear(); }
  void mark() override { moments_.push_back(now_ns()); }
  std::span<const int64_t> moments() override { return moments_; }

 private:
  std::vector<int64_t> moments_;
};

// 0 where nobody tells.
size_t bytes_of_host() {
  const int64_t all = host_memory().all;
  return all == std::numeric_limits<int64_t>::max() ? 0 : static_cast<size_t>(all);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "CPU";
}

class CpuDevice : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "cpu"; }
  std::string description() const override {
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    return format("{}, {} core{}, {}", processor_name(), cores, cores == 1 ? "" : "s",
                  human_bytes(static_cast<double>(capacity_)));
  }

  Buffer allocate(size_t bytes) override {
    if (bytes == 0) return {};
    const size_t taken = meter_.take(bytes, name());
    void* data = capacity_ == 0 || bytes <= capacity_ ? pool_.take(bytes) : nullptr;
    if (data == nullptr) meter_.refuse(bytes, capacity_, name());
    meter_.keep(taken);
    return Buffer(this, data, bytes);
  }
  PinnedMemory allocate_pinned(size_t bytes) override {
    if (bytes == 0) return {};
    auto* data = static_cast<std::byte*>(::operator new[](bytes, kCacheLine));
    return {data, [](std::byte* each) { ::operator delete[](each, kCacheLine); }};
  }
  void cap_memory(size_t bytes) override { meter_.set_cap(bytes); }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }
  std::unique_ptr<Timeline> make_timeline(Stream&) override {
    return std::make_unique<CpuTimeline>();
  }
  MemoryStats memory() const override { return meter_.stats(capacity_); }
  void reset_peak() override { meter_.reset_peak(); }

 protected:
  void release(void* data, size_t bytes) noexcept override {
    meter_.subtract(bytes);
    pool_.give(data, bytes);
  }

 private:
  const size_t capacity_ = bytes_of_host();
  BlockPool pool_;
  MemoryMeter meter_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace kerf::runtime
