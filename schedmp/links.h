// The links between workers, and what a message takes on its way over one. Both simulations go by
// it: unfold.h of a schedule on the graph of its stages, simulate.h of a plan.
//
//   sent -- waits until the link is free -- bytes / bandwidth, on the link -- latency -- arrived
//
// A link is one way between two workers. It carries one message at a time, in the order in which
// they were sent, and is free for the next once the last byte has left: latencies overlap. Plain
// values; pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace kerf::schedmp {

// Both ways alike. Times are seconds, or the unit of the costs that they stand beside.
struct Link {
  double latency = 0;
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes by unit of time
  double seconds_of(double bytes) const { return bytes / bandwidth; }
  bool operator==(const Link&) const = default;
};

// What messages wait for.
enum class Contention : uint8_t {
  kNone,  // for nobody: as many at once as are sent
  kLink,  // for those before them to the same worker
  kPort,  // for all that their sender has sent before, whoever it was for
};

struct Links {
  std::optional<Link> every = std::nullopt;         // of all pairs that are not listed
  std::map<std::pair<int, int>, Link> listed = {};  // of the lower worker and the higher
  Contention contention = Contention::kLink;

  bool empty() const { return !every && listed.empty(); }
  // Null: nothing is known of that link.
  const Link* between(int worker, int other) const;
  // Whether any takes longer for more bytes.
  bool count_bytes() const;
  bool operator==(const Links&) const = default;
};

// When a message arrives that is sent then; `free` is from when on its link has nothing to carry.
inline double arrival(double& free, double sent, double on_link, double latency) {
  free = std::max(free, sent) + on_link;
  return free + latency;
}

}  // namespace kerf::schedmp
