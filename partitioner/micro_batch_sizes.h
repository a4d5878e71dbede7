// How the rows of a step go to its micro-batches: as evenly as can be, larger ones first; or as a
// person said, who may let their length vary (AMPNet, arXiv:1705.09786). What was given is filled
// in its order, so that a step of fewer rows, at the end of an epoch, has its shorter and its empty
// ones last. This rule has no other home. Plain values; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace kerf::partitioner {

// Of a plan's step: beyond any use, and small enough that no product of it with a tensor's size
// overflows.
inline constexpr int64_t kMostRows = int64_t{1} << 31;
inline constexpr int kMostMicroBatches = 65'536;

class MicroBatchSizes {
 public:
  // `given`: rows of each, which check_given_sizes() finds nothing wrong with; empty: evenly.
  explicit MicroBatchSizes(int micro_batches, std::span<const int64_t> given = {});

  // Of a step of so many rows, no more than were given: which of them a micro-batch begins with
  // (the one after the last: none, as many as there are), and how many it has. O(1).
  int64_t first(int64_t rows, int micro_batch) const;
  int64_t size(int64_t rows, int micro_batch) const {
    return first(rows, micro_batch + 1) - first(rows, micro_batch);
  }

  // Of all of them, in their order. Some may be empty where rows are few.
  std::vector<int64_t> of(int64_t rows) const;
  // Rows -> how many micro-batches have so many.
  std::map<int64_t, int> counted(int64_t rows) const;
  // Rows of the largest.
  int64_t largest(int64_t rows) const;

 private:
  int micro_batches_;
  std::vector<int64_t> starts_;  // where sizes were given: of each, and where the last ends
};

// What is wrong with sizes that were given for the micro-batches of a step of `batch` rows; empty:
// nothing.
std::string check_given_sizes(int micro_batches, std::span<const int64_t> given, int64_t batch);

// As --micro-batches takes them: "8", or "32,16,8,8". For people, in short: of many "32,16,8,..,8";
// and in words: "8 micro-batches", or "micro-batches of 32,16,8,8".
std::string sizes_text(int micro_batches, std::span<const int64_t> given);
std::string sizes_in_short(int micro_batches, std::span<const int64_t> given);
std::string sizes_in_words(int micro_batches, std::span<const int64_t> given);

}  // namespace kerf::partitioner
