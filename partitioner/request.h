// What of a request a plan keeps: what it was made for, beside the model, the batch and the
// schedule, so that it can be predicted again as it was. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/capacities.h"
#include "partitioner/profile.h"
#include "partitioner/steering.h"
#include "runtime/device.h"

namespace kerf::partitioner {

enum class Minimise : uint8_t { kTime, kForwardFlops };
std::string_view to_string(Minimise minimise);  // "time", "forward-flops"
// Throws Error{kUsage} that lists the names.
Minimise parse_minimise(const std::string& name);

// Where the slots of channels lie: at the sender, at both ends, or at the sender in memory that its
// GPU exports, which is whole blocks of runtime::kExportedBlock.
enum class SlotPlace : uint8_t { kSender, kBothEnds, kExported };

// The setting of a run, as far as its memory depends on it.
struct Setting {
  int slots = 2;  // per route, beyond what its ends hold; at least 1
  SlotPlace slot_place = SlotPlace::kSender;
  int optimizer_states = 1;  // per parameter
  int threads = 1;           // per worker
  // Of the workers in turn; empty: CPUs. Who runs a plan says so, never the plan.
  std::vector<runtime::DeviceKind> devices = {};
  bool operator==(const Setting&) const = default;
};

inline runtime::DeviceKind device_of(const std::vector<runtime::DeviceKind>& devices, int worker) {
  return devices.empty() ? runtime::DeviceKind::kCpu
                         : devices[static_cast<size_t>(worker) % devices.size()];
}

struct KeptRequest {
  std::string source;             // of the model, for who made it; empty: not told
  std::optional<int64_t> memory;  // bytes per worker
  Minimise minimise = Minimise::kTime;
  Setting setting;
  std::optional<double> momentum = std::nullopt;  // of who trains it; empty: not told
  std::string optimizer = {};                     // likewise; empty: sgd
  Profile profile = {};                           // by which it was predicted
  Capacities capacities = {};                     // of the workers' devices; likewise
  Steering steering = {};                         // what else was asked of its cut
  bool pairs = true;                              // feature and hybrid: whether products may be
                                                  // divided by their inputs
  bool trains = true;                             // whether its schedule had gradients; else what
                                                  // was priced is forward passes alone
  bool operator==(const KeptRequest&) const = default;
};

}  // namespace kerf::partitioner
