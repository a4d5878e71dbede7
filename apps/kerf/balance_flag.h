// --balance, of programs that divide something over their workers once: as fast as these are
// measured to be.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/format.h"

namespace kerf::apps {

// `what`: "users".
inline void add_balance_flag(CLI::App& command, const std::string& what, bool& balance) {
  command.add_flag("--balance", balance,
                   format("Measure first how fast each worker is, and divide {} in proportion; so "
                          "what a run comes to depends on these times, too",
                          what));
}

// For the end of a run's last line: how many each worker has.
inline std::string divided_in_words(const std::string& what, const std::vector<int64_t>& counts) {
  return format("; {} over the workers: {}", what, fmt::join(counts, ", "));
}

}  // namespace kerf::apps
