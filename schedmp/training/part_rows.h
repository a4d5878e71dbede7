// A part's tensors as the rows of its table (shared_tensors()): copies between the device and
// numbers of the host. Used by the compute thread only.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/workbench.h"
#include "schedmp/training/parameters.h"
#include "schedmp/training/replicas.h"
#include "schedmp/training/weight_updates.h"

namespace kerf::schedmp {

// The number of the part's table; empty: it has none.
std::optional<int> table_of(const std::vector<std::pair<int, int>>& table_of_part, int part);

class PartRows {
 public:
  // Of the worker's part at this place. References outlive this.
  PartRows(size_t place, const partitioner::Part& part, Parameters& parameters,
           ops::Workbench& bench)
      : place_(place), parameters_(parameters), bench_(bench), tensors_(shared_tensors(part)) {}

  const std::vector<SharedTensor>& tensors() const { return tensors_; }
  // In the stream: from the tensor, and to it.
  void take(const SharedTensor& tensor, std::span<float> numbers);
  void give(const SharedTensor& tensor, std::span<const float> numbers);
  // Adds so many times each gradient to its rows of `sums`; waits for the device.
  template <class Number>
  void add(std::span<const WeightUpdates::Home> homes, Number scale, std::vector<Number>& sums) {
    for (const WeightUpdates::Home& home : homes) {
      const auto tensor = std::ranges::find(tensors_, home.local, &SharedTensor::local);
      if (tensor == tensors_.end()) continue;  // it has no element
      scratch_.resize(static_cast<size_t>(tensor->elements));
      bench_.stream().copy(scratch_.data(), home.gradient.data, home.gradient.bytes());
      bench_.stream().synchronize();
      const std::span<Number> sum = of_rows(sums, *tensor);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += scale * static_cast<Number>(scratch_[i]);
    }
  }

 private:
  size_t place_;
  Parameters& parameters_;
  ops::Workbench& bench_;
  std::vector<SharedTensor> tensors_;
  std::vector<float> scratch_;
};

}  // namespace kerf::schedmp
