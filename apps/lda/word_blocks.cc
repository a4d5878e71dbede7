#include "apps/lda/word_blocks.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "ops/random.h"
#include "runtime/error.h"

namespace kerf::apps {

int64_t WordBlocks::largest() const {
  int64_t most = 0;
  for (int block = 0; block < blocks(); ++block) most = std::max(most, size(block));
  return most;
}

WordBlocks divided_words(const std::vector<int64_t>& tokens, int blocks, uint64_t seed) {
  KERF_CHECK(blocks >= 1 && std::ssize(tokens) <= INT32_MAX, "{} words in {} blocks", tokens.size(),
             blocks);
  const std::vector<int64_t> drawn = ops::permutation(std::ssize(tokens), seed, 0);
  std::vector<int64_t> common_first = drawn;
  std::stable_sort(common_first.begin(), common_first.end(), [&](int64_t a, int64_t b) {
    return tokens[static_cast<size_t>(a)] > tokens[static_cast<size_t>(b)];
  });
  using Load = std::pair<int64_t, int>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int block = 0; block < blocks; ++block) least.emplace(0, block);
  std::vector<int> block_of(tokens.size());
  for (const int64_t word : common_first) {
    const auto [load, block] = least.top();
    least.pop();
    block_of[static_cast<size_t>(word)] = block;
    // A word without tokens takes its row's memory.
    least.emplace(load + tokens[static_cast<size_t>(word)] + 1, block);
  }
  std::vector<std::vector<int32_t>> by_block(static_cast<size_t>(blocks));
  for (const int64_t word : drawn)
    by_block[static_cast<size_t>(block_of[static_cast<size_t>(word)])].push_back(
        static_cast<int32_t>(word));
  WordBlocks divided;
  for (const std::vector<int32_t>& words : by_block) {
    divided.order.insert(divided.order.end(), words.begin(), words.end());
    divided.begins.push_back(static_cast<int32_t>(divided.order.size()));
  }
  return divided;
}

}  // namespace kerf::apps
