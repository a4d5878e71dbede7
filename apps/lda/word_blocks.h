// How words are divided into the blocks that travel: each goes to the block that has the fewest
// tokens so far, common words first, equally common ones in an order drawn by the seed; so that
// workers have about as much to do with every block. A plain value; a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kerf::apps {

struct WordBlocks {
  std::vector<int32_t> begins = {0};  // blocks + 1
  std::vector<int32_t> order;         // words, block by block

  int blocks() const { return static_cast<int>(begins.size()) - 1; }
  int64_t size(int block) const { return std::ssize(words(block)); }
  int64_t largest() const;
  std::span<const int32_t> words(int block) const {
    const auto b = static_cast<size_t>(block);
    return std::span(order).subspan(static_cast<size_t>(begins[b]),
                                    static_cast<size_t>(begins[b + 1] - begins[b]));
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(begins, order);
  }
};

// tokens: of each word.
WordBlocks divided_words(const std::vector<int64_t>& tokens, int blocks, uint64_t seed);

}  // namespace kerf::apps
