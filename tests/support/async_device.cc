#include "tests/support/async_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "runtime/error.h"
#include "runtime/memory_meter.h"
#include "tests/support/async_stream.h"

namespace kerf::tests {

namespace {

constexpr std::align_val_t kAlignment{64};
constexpr int kFresh = 0xa5;

size_t physical_memory() {
  return static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<size_t>(::sysconf(_SC_PAGE_SIZE));
}

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGE_SIZE));
  return (bytes + page - 1) / page * page;
}

// Null when there is no room.
Pages map_pages(size_t bytes, int protection) {
  void* data =
      ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return {};
  return {static_cast<std::byte*>(data), [bytes](std::byte* begin) { ::munmap(begin, bytes); }};
}

Pages take_from_host(size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new[](bytes, kAlignment));
  return {data, [](std::byte* each) { ::operator delete[](each, kAlignment); }};
}

class AsyncDevice final : public runtime::Device {
 public:
  AsyncDevice(std::shared_ptr<AsyncWorld> world, AsyncDeviceOptions options)
      : world_(std::move(world)),
        begin_thread_(std::move(options.begin_thread)),
        capacity_(options.capacity != 0 ? options.capacity : physical_memory()) {}

  runtime::DeviceKind kind() const override { return runtime::DeviceKind::kCpu; }
  std::string name() const override { return "async-test"; }
  std::string description() const override {
    return format("test device, late and strict, {}", human_bytes(static_cast<double>(capacity_)));
  }
  runtime::Buffer allocate(size_t bytes) override;
  runtime::PinnedMemory allocate_pinned(size_t bytes) override;
  bool reaches_host_memory() const override { return false; }
  runtime::HostRegistration register_host(void* data, size_t bytes) override;
  void cap_memory(size_t bytes) override { meter_.set_cap(bytes); }
  std::unique_ptr<runtime::Stream> make_stream() override {
    return std::make_unique<AsyncStream>(world_, begin_thread_);
  }
  std::unique_ptr<runtime::Event> make_event() override {
    return std::make_unique<AsyncEvent>(world_);
  }
  std::unique_ptr<runtime::Timeline> make_timeline(runtime::Stream& stream) override {
    return std::make_unique<AsyncTimeline>(dynamic_cast<AsyncStream&>(stream));
  }
  runtime::MemoryStats memory() const override { return meter_.stats(capacity_); }
  void reset_peak() override { meter_.reset_peak(); }

 protected:
  void release(void* data, size_t bytes) noexcept override {
    meter_.subtract(bytes);
    world_->order().free(static_cast<std::byte*>(data));
  }

 private:
  AsyncBlock map_block(size_t bytes) const;

  const std::shared_ptr<AsyncWorld> world_;
  const std::function<void()> begin_thread_;
  const size_t capacity_;
  std::mutex allocating_;  // between looking at what is left and taking of it
  runtime::MemoryMeter meter_;
};

// Its addresses are another stretch than its pages: the first nobody may touch, the others only who
// is told where they are.
AsyncBlock AsyncDevice::map_block(size_t bytes) const {
  if (bytes > capacity_ || meter_.current() > capacity_ - bytes) return {};
  AsyncBlock block;
  block.bytes = bytes;
  block.reserved = whole_pages(bytes);
  block.addresses = map_pages(block.reserved, PROT_NONE);
  block.real = map_pages(block.reserved, PROT_READ | PROT_WRITE);
  if (!block.addresses || !block.real) return {};
  block.begin = block.addresses.get();
  std::memset(block.real.get(), kFresh, block.reserved);
  return block;
}

runtime::Buffer AsyncDevice::allocate(size_t bytes) {
  if (bytes == 0) return {};
  const std::lock_guard lock(allocating_);
  AsyncBlock block = map_block(bytes);
  std::byte* begin = block.begin;
  const size_t taken = meter_.take(bytes, name());
  if (begin == nullptr) meter_.refuse(bytes, capacity_, name());
  world_->order().add(std::move(block));
  meter_.keep(taken);
  return {this, begin, bytes};
}

runtime::PinnedMemory AsyncDevice::allocate_pinned(size_t bytes) {
  if (bytes == 0) return {};
  AsyncBlock block;
  block.real = take_from_host(bytes);
  block.begin = block.real.get();
  block.bytes = block.reserved = bytes;
  block.pinned = true;
  std::memset(block.begin, kFresh, bytes);
  std::byte* begin = block.begin;
  world_->order().add(std::move(block));
  return {begin, [world = world_](std::byte* each) { world->order().free(each); }};
}

// Until then it was as the host left it; from now on what touches it is looked at.
runtime::HostRegistration AsyncDevice::register_host(void* data, size_t bytes) {
  if (bytes == 0) return {};
  AsyncBlock block;
  block.begin = static_cast<std::byte*>(data);
  block.real = Pages(block.begin, [](std::byte*) {});
  block.bytes = block.reserved = bytes;
  block.pinned = true;
  world_->order().add(std::move(block));
  return {data,
          [world = world_](void* each) { world->order().free(static_cast<std::byte*>(each)); }};
}

}  // namespace

std::unique_ptr<runtime::Device> make_async_device(std::shared_ptr<AsyncWorld> world,
                                                   AsyncDeviceOptions options) {
  return std::make_unique<AsyncDevice>(std::move(world), std::move(options));
}

}  // namespace kerf::tests
