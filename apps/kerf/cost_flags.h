// The flags that say what actions and messages take in a simulation: `kerf schedule` has them, and
// `kerf schedule sweep` most of them.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "schedmp/unfold.h"

namespace kerf::apps {

inline constexpr const char* kPlanCosts = "plan";  // in place of numbers or a file: as it is priced

struct CostFlags {
  std::string costs;                         // as given: numbers, a file, or kPlanCosts
  std::string devices;                       // a file of the workers' speeds and links
  std::optional<std::string> link;           // of every pair of workers that no file lists
  std::optional<std::string> message_bytes;  // of every stage
  std::string contention = "link";
  double jitter = 0;
  uint64_t seed = 0;
};

void add_cost_flags(CLI::App& command, CostFlags& flags);
// Those of links that a sweep has too.
void add_message_flags(CLI::App& command, CostFlags& flags);

// What --costs says: numbers, or a file's. Throws Error{kUsage}.
schedmp::ActionCosts read_costs_flag(const std::string& text);

// All but what needs to know the workers. kPlanCosts is taken as nothing said. Throws
// Error{kUsage}.
schedmp::ActionCosts costs_of(const CostFlags& flags);
// And that: speeds and links of --devices.
void take_devices(const CostFlags& flags, int workers, schedmp::ActionCosts& costs);
// Throws Error{kUsage} where costs are of other stages.
void check_stages(const CostFlags& flags, const schedmp::ActionCosts& costs, int stages);
// Throws Error{kUsage} where links have a bandwidth, and nothing says how long messages are.
void check_message_bytes(const CostFlags& flags, const schedmp::ActionCosts& costs);

}  // namespace kerf::apps
