#include "tests/support/cuda_on_host/gpu_state.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace kerf::tests {
namespace {

constexpr uintptr_t kPageBytes = 4096;
// No number that a kernel is given is as large and no address of this process as small.
constexpr uintptr_t kLeastAddress = uintptr_t{0x5000} << 32U;
constexpr uintptr_t kMostAddress = uintptr_t{0x7fff} << 32U | 0xffffffffU;

thread_local bool is_in_host_function = false;

bool is_mapped(uintptr_t address) {
  void* page = nullptr;
  const uintptr_t begin = address / kPageBytes * kPageBytes;
  std::memcpy(&page, &begin, sizeof page);
  return msync(page, 1, MS_ASYNC) == 0;
}

std::string readable(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string found = status == 0 ? text : name;
  std::free(text);
  return found;
}

}  // namespace

bool in_host_function() { return is_in_host_function; }

// Line by line of what is mapped, in order: "begin-end rw-s ...".
bool is_writable(const void* data, size_t bytes) {
  auto at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t end = at + bytes;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; at < end && std::getline(maps, line);) {
    unsigned long first = 0;
    unsigned long last = 0;
    char write = '-';
    if (std::sscanf(line.c_str(), "%lx-%lx %*c%c", &first, &last, &write) != 3) return false;
    if (last <= at) continue;
    if (first > at || write != 'w') return false;
    at = last;
  }
  return at >= end;
}

void die(const std::string& why) {
  std::fprintf(stderr, "played GPU: %s\n", why.c_str());
  std::abort();
}

std::string GpuKernel::text() const { return readable(name); }

bool GpuMoment::happened() const { return line == nullptr || line->done() >= at; }

GpuState::GpuState() {
  const char* said = std::getenv("KERF_PLAYED_GPU");
  if (said == nullptr) return;
  std::istringstream words(said);
  Break found;
  std::string error;
  words >> found.device >> found.kernel >> found.others >> error;
  const bool is_sound = !words.fail();
  words >> found.once;
  if (!is_sound || (error != "ecc" && error != "address"))
    die(std::string("KERF_PLAYED_GPU is no 'GPU KERNEL OTHERS ecc|address [ONCE]': ") + said);
  found.error = error == "ecc" ? cudaErrorECCUncorrectable : cudaErrorIllegalAddress;
  break_ = std::move(found);
}

GpuState& GpuState::of_process() {
  static GpuState state;
  return state;
}

std::shared_ptr<GpuLine> GpuState::make_line(int device) {
  std::erase_if(lines_,
                [](const auto& each) { return each.use_count() == 1 && each->queue.empty(); });
  auto line = std::make_shared<GpuLine>();
  line->device = device;
  lines_.push_back(line);
  return line;
}

void GpuState::push(GpuLine& line, GpuItem item) {
  line.queue.push_back(std::move(item));
  ++line.pushed;
}

bool GpuState::step() {
  std::vector<GpuLine*> ready;
  for (const auto& line : lines_)
    if (!line->queue.empty() && line->queue.front().after.happened()) ready.push_back(line.get());
  if (ready.empty() || broken_ != cudaSuccess) return false;
  GpuLine& line = *ready[ready.size() == 1 ? 0 : random() % ready.size()];
  const GpuItem& item = line.queue.front();
  if (breaks(item, line.device)) return false;
  memory.open_for(item.by == GpuItem::By::kDevice    ? line.device
                  : item.by == GpuItem::By::kDevices ? GpuMemory::kEverybody
                                                     : GpuMemory::kNobody);
  is_in_host_function = item.by == GpuItem::By::kHost;
  if (item.work) item.work();
  is_in_host_function = false;
  line.queue.pop_front();
  return true;
}

// A wait is for what was enqueued before it, so something can always begin.
void GpuState::run_until(const GpuMoment& moment) {
  while (!moment.happened() && step()) {
  }
  memory.open_for(GpuMemory::kNobody);
}

void GpuState::run_one() {
  step();
  memory.open_for(GpuMemory::kNobody);
}

void GpuState::run_all() {
  while (step()) {
  }
  memory.open_for(GpuMemory::kNobody);
}

void GpuState::break_with(cudaError_t error) {
  broken_ = error;
  break_.reset();
  for (const auto& line : lines_) line->queue.clear();
}

void GpuState::break_at(int device, const std::string& kernel, int others, cudaError_t error) {
  break_ = {device, kernel, others, error, {}};
}

bool GpuState::breaks(const GpuItem& item, int device) {
  if (!break_ || item.kernel.name == nullptr ||
      (break_->device != kAnyGpu && break_->device != device) ||
      item.kernel.text().find(break_->kernel) == std::string::npos || break_->others-- > 0)
    return false;
  const std::string& once = break_->once;
  if (!once.empty()) {
    const int file = ::open(once.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0) return break_.reset(), false;
    ::close(file);
  }
  break_with(break_->error);
  return true;
}

bool GpuState::is_pinned(const void* data, size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(data);
  auto after = pinned.upper_bound(at);
  if (after == pinned.begin()) return false;
  const auto& [begin, size] = *--after;
  return at < begin + size && bytes <= size - static_cast<size_t>(at - begin);
}

bool GpuState::is_any_pinned(const void* data, size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(data);
  const auto next = pinned.lower_bound(at);
  return is_pinned(data, 0) || (next != pinned.end() && next->first < at + bytes);
}

void GpuState::check_unused(const void* data, size_t bytes, const char* call) const {
  const auto* begin = static_cast<const std::byte*>(data);
  for (const auto& line : lines_)
    for (const GpuItem& item : line->queue)
      for (const void* address : item.given) {
        const auto* at = static_cast<const std::byte*>(address);
        if (at < begin || at >= begin + bytes) continue;
        die(std::string(call) + ": work that waits uses this memory" +
            (item.kernel.name == nullptr ? "" : ": " + item.kernel.text()));
      }
}

std::vector<const void*> GpuState::addresses_of(const GpuKernel& kernel, int device) const {
  std::vector<const void*> found;
  for (size_t i = 0; i + sizeof(void*) <= kernel.given.size(); i += sizeof(void*)) {
    uintptr_t word = 0;
    std::memcpy(&word, kernel.given.data() + i, sizeof word);
    const void* address = nullptr;
    std::memcpy(&address, &word, sizeof address);
    const auto refuse = [&](const char* why) {
      char text[24];
      std::snprintf(text, sizeof text, "%p", address);
      die("cuda:" + std::to_string(device) + ": " + kernel.text() + " was given " + text + ", " +
          why);
    };
    if (memory.holds(address)) {
      if (memory.device_of(address) != device) refuse("memory of another GPU");
      if (!memory.is_allocated(address, 0)) refuse("memory that is free");
    } else if (!is_pinned(address, 0)) {
      if (word >= kLeastAddress && word <= kMostAddress && is_mapped(word))
        refuse("memory of the host that is not pinned");
      continue;
    }
    found.push_back(address);
  }
  return found;
}

}  // namespace kerf::tests
