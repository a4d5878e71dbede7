#include "partitioner/micro_batch_sizes.h"

#include <algorithm>

#include "partitioner/at.h"
#include "runtime/error.h"
#include "runtime/format.h"

namespace kerf::partitioner {

namespace {

constexpr size_t kMostTold = 8;  // sizes, for people

}  // namespace

MicroBatchSizes::MicroBatchSizes(int micro_batches, std::span<const int64_t> given)
    : micro_batches_(micro_batches) {
  if (given.empty()) return;
  KERF_CHECK(std::ssize(given) == micro_batches, "{} sizes of {} micro-batches", given.size(),
             micro_batches);
  starts_.reserve(given.size() + 1);
  starts_.push_back(0);
  for (const int64_t rows : given) starts_.push_back(starts_.back() + rows);
}

int64_t MicroBatchSizes::first(int64_t rows, int micro_batch) const {
  if (!starts_.empty()) return std::min(rows, starts_[at(micro_batch)]);
  return rows / micro_batches_ * micro_batch +
         std::min<int64_t>(micro_batch, rows % micro_batches_);
}

std::vector<int64_t> MicroBatchSizes::of(int64_t rows) const {
  KERF_CHECK(rows >= 0 && micro_batches_ >= 1, "{} rows over {} micro-batches", rows,
             micro_batches_);
  KERF_CHECK(starts_.empty() || rows <= starts_.back(), "{} rows over micro-batches of {}", rows,
             starts_.back());
  std::vector<int64_t> sizes;
  for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch)
    sizes.push_back(size(rows, micro_batch));
  return sizes;
}

// Even ones are of two sizes at most, however many they are.
std::map<int64_t, int> MicroBatchSizes::counted(int64_t rows) const {
  std::map<int64_t, int> result;
  if (!starts_.empty()) {
    for (const int64_t size : of(rows)) ++result[size];
    return result;
  }
  const auto larger = static_cast<int>(rows % micro_batches_);
  if (larger > 0) result[rows / micro_batches_ + 1] = larger;
  result[rows / micro_batches_] = micro_batches_ - larger;
  return result;
}

int64_t MicroBatchSizes::largest(int64_t rows) const {
  if (micro_batches_ < 1) return rows;
  if (starts_.empty()) return size(rows, 0);
  int64_t most = 0;
  for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch)
    most = std::max(most, size(rows, micro_batch));
  return most;
}

std::string check_given_sizes(int micro_batches, std::span<const int64_t> given, int64_t batch) {
  if (given.empty()) return {};
  if (given.size() > at(kMostMicroBatches))
    return format("{} micro-batches, which are more than {}", given.size(), kMostMicroBatches);
  if (std::ssize(given) != micro_batches)
    return format("{} sizes of {} micro-batches", given.size(), micro_batches);
  int64_t sum = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 1 || given[i] > kMostRows)
      return format("micro-batch {} has {} rows, which is not within 1 and {}", i, given[i],
                    kMostRows);
    sum += given[i];
  }
  if (sum != batch)
    return format("the micro-batches have {} rows, but the step has {}", sum, batch);
  return {};
}

std::string sizes_text(int micro_batches, std::span<const int64_t> given) {
  return given.empty() ? format("{}", micro_batches) : format("{}", fmt::join(given, ","));
}

std::string sizes_in_short(int micro_batches, std::span<const int64_t> given) {
  if (given.size() <= kMostTold) return sizes_text(micro_batches, given);
  return format("{},..,{}", fmt::join(given.first(kMostTold - 1), ","), given.back());
}

std::string sizes_in_words(int micro_batches, std::span<const int64_t> given) {
  if (given.empty()) return plural(micro_batches, "micro-batch");
  return "micro-batches of " + sizes_in_short(micro_batches, given);
}

}  // namespace kerf::partitioner
