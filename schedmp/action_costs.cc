#include "schedmp/action_costs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "partitioner/plan_members.h"
#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::schedmp {

using partitioner::check_members;
using partitioner::refuse_member;

namespace {

constexpr int kCostsVersion = 1;
constexpr double kMostCost = 1e6;

// What takes no time at all has a place: a stage that only hands on.
double checked(double cost, const std::string& what, const std::string& where) {
  if (cost != 0 && !(cost >= kLeastCost && cost <= kMostCost))
    throw Error(ErrorCode::kUsage,
                kerf::format("{} costs {}, which is neither 0 nor within {} and {}", what, cost,
                             kLeastCost, kMostCost),
                where);
  return cost;
}

double number(const Json& json, const char* key, const std::string& where) {
  return checked(json_number(json, key, where), key, where);
}

StageCosts read_stage(const Json& json, const std::string& where) {
  check_members(json, {"F", "I", "W"}, where);
  return {number(json, "F", where), number(json, "I", where), number(json, "W", where)};
}

}  // namespace

ActionCosts parse_costs(const std::string& text) {
  constexpr std::array<const char*, 4> kNames = {"F", "I", "W", "COMM"};
  std::array<double, 4> costs = {1, 1, 1, 0};
  size_t count = 0;
  for (size_t start = 0; start <= text.size(); ++count) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string one = text.substr(start, end - start);
    double cost = 0;
    const auto [stop, fault] = std::from_chars(one.data(), one.data() + one.size(), cost);
    if (count == costs.size() || fault != std::errc() || stop != one.data() + one.size())
      throw Error(ErrorCode::kUsage,
                  kerf::format("'{}' must be F,I,W or F,I,W,COMM, numbers as in 1,1.2,0.8,0.1, or "
                               "a file",
                               text));
    costs[count] = checked(cost, kNames[count], "");
    start = end + 1;
  }
  if (count < 3)
    throw Error(ErrorCode::kUsage, kerf::format("'{}' has no costs of F, I and W", text));
  return {{}, costs[3], {costs[0], costs[1], costs[2]}};
}

ActionCosts read_costs(const std::string& text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  check_members(json, {"kerf_costs", "COMM", "stages"}, origin);
  if (json_int(json, "kerf_costs", origin) != kCostsVersion)
    refuse_member(origin, kerf::format("\"kerf_costs\" must be {}", kCostsVersion));
  ActionCosts costs;
  if (json.contains("COMM")) costs.transfer = number(json, "COMM", origin);
  for (const Json& stage : json_array(json, "stages", origin))
    costs.stages.push_back(
        read_stage(stage, kerf::format("{}: stages[{}]", origin, costs.stages.size())));
  if (costs.stages.empty()) refuse_member(origin, "\"stages\" is empty");
  return costs;
}

std::string write_costs(const ActionCosts& costs) {
  const auto readable = [](double cost) {
    return cost > 0 ? std::clamp(cost, kLeastCost, kMostCost) : 0;
  };
  Json stages = Json::array();
  for (const StageCosts& each : costs.stages)
    stages.push_back({{"F", readable(each.forward)},
                      {"I", readable(each.input_gradient)},
                      {"W", readable(each.weight_gradient)}});
  const Json json{{"kerf_costs", kCostsVersion},
                  {"COMM", readable(costs.transfer)},
                  {"stages", std::move(stages)}};
  return json_text(json, 1) + "\n";
}

}  // namespace kerf::schedmp
