#include "apps/report/asked_record.h"

#include <vector>

#include "runtime/format.h"

namespace kerf::apps {

AskedRecord asked_of(const partitioner::Plan& plan) {
  if (!plan.request) return {};
  return {plan.request->steering, plan.request->capacities};
}

Json asked_json(const AskedRecord& asked) {
  Json json = partitioner::steering_json(asked.steering);
  if (asked.steering.automatic) json.erase("pattern");  // nobody's but the choice's
  if (!asked.devices.empty()) json["devices"] = partitioner::capacities_json(asked.devices);
  return json;
}

AskedRecord read_asked(const Json& json, const std::string& where) {
  if (!json.is_object()) throw Error(ErrorCode::kUsage, "must be an object", where);
  Json steering = json;
  steering.erase("devices");
  AskedRecord asked{partitioner::read_steering(steering, where), {}};
  if (json.contains("devices"))
    asked.devices = partitioner::read_capacities(json["devices"], where + ".devices");
  return asked;
}

std::string asked_text(const AskedRecord& asked) {
  const partitioner::Steering& steering = asked.steering;
  std::vector<std::string> flags;
  if (!asked.devices.empty())
    flags.push_back(format("--devices ({})",
                           plural(static_cast<long long>(asked.devices.workers.size()), "worker")));
  if (steering.automatic) flags.emplace_back("--cut auto");
  if (steering.by_shares) flags.emplace_back("--shares");
  if (!steering.pattern.empty() && !steering.automatic)
    flags.push_back("--pattern " + steering.pattern);
  if (!steering.others.empty()) flags.push_back("--cut " + steering.others);
  for (const partitioner::WayRule& rule : steering.ways)
    flags.push_back(format("--way {}={}", rule.pattern, rule.way));
  if (!steering.places.empty())
    flags.push_back(
        format("--place ({})", plural(static_cast<long long>(steering.places.size()), "line")));
  for (const auto& patterns : steering.together)
    flags.push_back(format("--together {}", fmt::join(patterns, ",")));
  for (const auto& patterns : steering.apart)
    flags.push_back(format("--apart {}", fmt::join(patterns, ",")));
  if (steering.stages_per_worker != 1)
    flags.push_back(format("--stages-per-worker {}", steering.stages_per_worker));
  if (steering.without_pairs) flags.emplace_back("--pairs off");
  if (steering.slack != 0) flags.push_back(format("--slack {}", steering.slack));
  return flags.empty() ? std::string() : format("asked: {}\n", fmt::join(flags, " "));
}

void add_asked(const partitioner::Plan& plan, Json& told) {
  if (const AskedRecord asked = asked_of(plan); !asked.empty()) told["asked"] = asked_json(asked);
}

}  // namespace kerf::apps
