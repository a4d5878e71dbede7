#include "apps/mf/item_blocks.h"

#include <algorithm>

#include "ops/random.h"
#include "runtime/error.h"

namespace kerf::apps {

ItemBlocks::ItemBlocks(int64_t items, int blocks, uint64_t seed)
    : blocks_(blocks),
      order_(ops::permutation(items, seed, 0)),
      places_(static_cast<size_t>(items)) {
  KERF_CHECK(blocks >= 1, "{} blocks", blocks);
  for (int block = 0; block < blocks; ++block)
    for (int64_t index = 0; index < size(block); ++index)
      places_[static_cast<size_t>(item(block, index))] = {block, static_cast<int32_t>(index)};
}

int64_t ItemBlocks::largest() const {
  int64_t most = 0;
  for (int block = 0; block < blocks_; ++block) most = std::max(most, size(block));
  return most;
}

}  // namespace kerf::apps
