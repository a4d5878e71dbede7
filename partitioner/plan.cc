#include "partitioner/plan.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kerf::partitioner {

namespace {

constexpr std::array<std::pair<Cut, std::string_view>, 4> kCuts = {{{Cut::kLayer, "layer"},
                                                                    {Cut::kFeature, "feature"},
                                                                    {Cut::kHybrid, "hybrid"},
                                                                    {Cut::kFree, "free"}}};

}  // namespace

std::string_view to_string(Cut cut) {
  for (const auto& [value, name] : kCuts)
    if (value == cut) return name;
  return "unknown";
}

Cut parse_cut(const std::string& name) {
  for (const auto& [value, known] : kCuts)
    if (known == name) return value;
  std::vector<std::string_view> names;
  for (const auto& [value, known] : kCuts) names.push_back(known);
  throw Error(ErrorCode::kUsage,
              format("there is no cut \"{}\"; the cuts are {}", name, fmt::join(names, ", ")));
}

std::string_view to_string(Minimise minimise) {
  return minimise == Minimise::kTime ? "time" : "forward-flops";
}

Minimise parse_minimise(const std::string& name) {
  for (const Minimise one : {Minimise::kTime, Minimise::kForwardFlops})
    if (name == to_string(one)) return one;
  throw Error(ErrorCode::kUsage,
              format("there is no objective \"{}\"; there are time and forward-flops", name));
}

int Plan::stage_of(NodeId node) const {
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::vector<NodeId>& nodes = stages[s].nodes;
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return static_cast<int>(s);
  }
  return -1;
}

std::vector<Traffic> predict_traffic(const Model& model, const Plan& plan, int64_t batch,
                                     bool gradients) {
  const std::vector<int64_t> sizes = micro_batch_sizes(batch, plan.micro_batches);
  std::vector<Traffic> result;
  for (const Route& route : plan.routes) {
    Traffic& traffic = result.emplace_back();
    if (route.gradient && !gradients) continue;
    for (const int64_t samples : sizes) {
      ++traffic.messages;
      traffic.bytes += static_cast<int64_t>(message_bytes(model, route, samples));
    }
  }
  return result;
}

}  // namespace kerf::partitioner
