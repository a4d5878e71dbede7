// A corpus whose topics are known, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/file.h"
#include "runtime/format.h"

namespace kerf::tests {

// Topic k has the words [k V / K, (k + 1) V / K), the earlier the more; a document of about
// `length` tokens has most of them of one topic, and some of another.
inline std::vector<std::vector<int32_t>> planted_topics(int topics, int words, int documents,
                                                        int length, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<uint64_t>(count));
  };
  std::vector<std::vector<int32_t>> corpus(static_cast<size_t>(documents));
  for (auto& document : corpus) {
    const int most = below(topics), some = below(topics);
    document.resize(static_cast<size_t>(length / 2 + below(length)));
    for (int32_t& word : document) {
      const int topic = below(10) < 7 ? most : some;
      const int each = words / topics;
      word = topic * each + std::min(below(each), below(each));
    }
    std::sort(document.begin(), document.end());
  }
  return corpus;
}

inline void write_corpus(const std::filesystem::path& path,
                         const std::vector<std::vector<int32_t>>& corpus) {
  std::string text;
  for (const auto& document : corpus) {
    for (size_t i = 0; i < document.size();) {
      const auto end = static_cast<size_t>(
          std::upper_bound(document.begin(), document.end(), document[i]) - document.begin());
      text += format("{}:{} ", document[i], end - i);
      i = end;
    }
    text += "\n";
  }
  runtime::write_file_atomic(path, text);
}

}  // namespace kerf::tests
