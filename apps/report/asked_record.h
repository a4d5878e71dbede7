// What a person asked of a plan beside which cut it is, as it keeps it: the steering, and devices
// that are not alike. Told by --json under "asked", and by reports in flags. Plain values.
#pragma once

#include <string>

#include "partitioner/capacities.h"
#include "partitioner/plan.h"
#include "partitioner/steering.h"
#include "runtime/json.h"

namespace kerf::apps {

struct AskedRecord {
  partitioner::Steering steering = {};
  partitioner::Capacities devices = {};

  bool empty() const { return steering.empty() && devices.empty(); }
  bool operator==(const AskedRecord&) const = default;
};

AskedRecord asked_of(const partitioner::Plan& plan);
Json asked_json(const AskedRecord& asked);
// Throws Error{kUsage} that names `where`.
AskedRecord read_asked(const Json& json, const std::string& where);
// "asked: --together conv1,conv2 --slack 0.1", a line; nothing where nothing was.
std::string asked_text(const AskedRecord& asked);

// Adds "asked"; nothing where nothing was.
void add_asked(const partitioner::Plan& plan, Json& told);

}  // namespace kerf::apps
