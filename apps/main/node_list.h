// Slurm's lists of hosts: "n[0-2,5],login" is n0, n1, n2, n5 and login. A pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kerf::apps {

inline constexpr size_t kMostNodes = size_t{1} << 16;

// In their order. Numbers keep their zeros ("n[08-10]"); a name may have several brackets. Throws
// Error{kUsage} at `origin` for what is no such list, and one of more than kMostNodes.
std::vector<std::string> parse_nodes(std::string_view text, const std::string& origin);

}  // namespace kerf::apps
