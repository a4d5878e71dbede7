#include "ops/cuda/device_table.h"

namespace kerf::ops::cuda {

DeviceTable::DeviceTable(const Queue& queue, const std::vector<int64_t>& numbers)
    : memory_(queue.memory().allocate(numbers.size() * sizeof(int64_t))) {
  if (numbers.empty()) return;
  // Not pinned, so the numbers are taken at once.
  runtime::check_cuda(
      cudaMemcpyAsync(memory_.get(), numbers.data(), numbers.size() * sizeof(int64_t),
                      cudaMemcpyHostToDevice, queue.stream()),
      "cudaMemcpyAsync", queue.name());
}

}  // namespace kerf::ops::cuda
