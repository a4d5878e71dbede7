// Bytes as a stranger may send them: sound ones, with one to four edits that cut, repeat, flip and
// write the counts that hurt most. The same generator gives the same edits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace kerf::tests {

// Half of the edits are in the first `head` bytes, which is where most of a file is decided.
inline std::string mutated(std::string bytes, std::mt19937_64& random, size_t head = SIZE_MAX) {
  constexpr std::array<std::string_view, 3> kCounts{{{"\xff\xff\xff\xff", 4},  // -1, and 2^32 - 1
                                                     {"\0\0\0\x20", 4},        // half a GiB
                                                     {"\xff\xff\xff\xff\x07", 5}}};  // a varint
  const auto below = [&](uint64_t bound) { return random() % bound; };
  for (uint64_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    const size_t within = below(2) == 0 ? bytes.size() : std::min(bytes.size(), head);
    const size_t at = below(within);
    const size_t size = std::min(bytes.size() - at, size_t{1} + below(16));
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.erase(at, size);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 4:
        if (below(2) == 0) bytes.resize(at);
        break;
      case 5: {
        const std::string_view count = kCounts[below(kCounts.size())];
        bytes.replace(at, std::min(count.size(), bytes.size() - at), count);
        break;
      }
      case 6:
        bytes.replace(at, size, bytes.substr(below(bytes.size()), size));
        break;
    }
  }
  return bytes;
}

}  // namespace kerf::tests
