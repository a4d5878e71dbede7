#include "apps/report/tried_plans.h"

#include "apps/report/table.h"

namespace kerf::apps {

Json tried_json(const std::vector<partitioner::Tried>& tried) {
  Json list = Json::array();
  for (const partitioner::Tried& each : tried) {
    Json& told = list.emplace_back(Json{{"cut", each.how}});
    if (!each.step_seconds) {
      told["why_not"] = each.why_not;
      continue;
    }
    told["step_seconds"] = *each.step_seconds;
    told["bytes"] = each.bytes;
  }
  return list;
}

std::string tried_text(const std::vector<partitioner::Tried>& tried, bool colour) {
  Table table({"tried", "step", "bytes"});
  std::string failed;
  for (const partitioner::Tried& each : tried)
    if (each.step_seconds)
      table.add({each.how, human_seconds(*each.step_seconds), bytes_text(each.bytes)});
    else
      failed += format("{}: {}\n", each.how, each.why_not);
  return "\n" + table.text(colour) + failed;
}

}  // namespace kerf::apps
