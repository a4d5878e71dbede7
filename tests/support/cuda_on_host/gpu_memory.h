// The memory of played GPUs (gpu.h): one stretch of addresses each, closed but while a stream of
// that GPU works.
//
// Owned by the state of the played GPUs, under its lock.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace kerf::tests {

class GpuMemory {
 public:
  GpuMemory(int devices, size_t bytes);  // of each
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  // Aligned to 256 bytes, as cudaMalloc's, and full of ones (floats that are no numbers) at the
  // beginning. Null where there is no room.
  void* allocate(int device, size_t bytes);
  // False where nothing was allocated there. Dies where somebody wrote behind it.
  bool free(void* data);

  // Lets other processes open an allocation; the file that it lies in from now on, which is the
  // memory's. -1: it is none, or not of whole pages, and something else would be opened with it.
  int share(void* data);
  // What another process shares, among the device's own memory. Null where it cannot be.
  void* open_shared(int device, int file, size_t bytes);
  bool close_shared(void* data);

  bool holds(const void* data) const { return device_of(data) >= 0; }
  // -1: no GPU's.
  int device_of(const void* data) const;
  // Whether all of it is in one allocation, whose end counts where there are no bytes.
  bool is_allocated(const void* data, size_t bytes) const;

  // Who may touch it from now on.
  static constexpr int kNobody = -1;
  static constexpr int kEverybody = -2;  // a copy between GPUs
  void open_for(int device);

 private:
  struct Block {
    size_t bytes = 0;
    size_t units = 0;    // with what is left free behind it
    int file = -1;       // where it is shared
    bool other = false;  // another process's
  };
  std::byte* begin_of(int device) const {
    return base_ + static_cast<size_t>(device) * per_device_;
  }
  // Null where there is no room.
  std::byte* find_room(int device, size_t bytes) const;
  bool map_file(std::byte* at, size_t bytes, int file) const;
  bool map_own(std::byte* at, size_t bytes) const;
  // Opens what of it is closed for one's own look, and closes it again.
  template <class Act>
  void look_into(std::byte* begin, std::byte* end, const Act& act) const;
  bool is_open(int device) const { return open_ == kEverybody || open_ == device; }

  void* mapped_ = nullptr;
  std::byte* base_ = nullptr;  // the first whole page of it
  const int devices_;
  const size_t per_device_;
  int open_ = kNobody;
  std::map<std::byte*, Block> used_;
};

}  // namespace kerf::tests
