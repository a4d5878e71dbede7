// What the device of each worker can do, where they differ: how fast it computes, what memory it
// has, and the links between them (`--devices FILE`).
//
//   {"kerf_devices": 1,
//    "workers": {"0": {"speed": 1, "memory": 8589934592}, "1": {"speed": 2}, "2": {"speed": 4}},
//    "links": [{"between": [0, 1], "bytes_per_second": 1e9, "seconds": 5e-5}]}
//
// A speed of 2 takes half the seconds that costs say (cost.h), or that were measured. Nothing of it
// is looked up on this machine: a plan is made without the hardware that it is for. Which kind of
// device a worker has (`--device`) is another matter. Plain values; pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/json.h"

namespace kerf::partitioner {

struct Capacity {
  double speed = 1;
  std::optional<int64_t> memory = std::nullopt;  // bytes; empty: no cap of its own
  bool operator==(const Capacity&) const = default;
};

// Both ways.
struct LinkSpeed {
  std::optional<double> bytes_per_second = std::nullopt;  // empty: as DeviceSpeed says
  std::optional<double> seconds = std::nullopt;           // per message; likewise
  bool operator==(const LinkSpeed&) const = default;
};

struct Capacities {
  std::vector<Capacity> workers = {};                   // empty: all alike
  std::map<std::pair<int, int>, LinkSpeed> links = {};  // of the lower worker and the higher

  bool empty() const { return workers.empty(); }
  double speed_of(int worker) const;
  double speed_of_all(int workers) const;  // together
  std::optional<int64_t> memory_of(int worker) const;
  bool has_caps() const;                                       // of memory, for any worker
  const LinkSpeed* link_between(int worker, int other) const;  // null: as any
  // Ascending, each once; and which of them each worker has.
  std::vector<double> distinct_speeds() const;
  int speed_number_of(int worker) const;
  bool operator==(const Capacities&) const = default;
};

// As a plan keeps them: without the version.
Json capacities_json(const Capacities& capacities);
// Throws Error{kUsage} that names `where`, the worker and the member.
Capacities read_capacities(const Json& json, const std::string& where);
// A file's text. `workers`: how many a plan is for; empty: as many as the file has.
Capacities read_devices(const std::string& text, const std::string& origin,
                        std::optional<int> workers);

}  // namespace kerf::partitioner
