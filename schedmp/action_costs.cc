#include "schedmp/action_costs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
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
constexpr double kMostBytes = 1e15;
// As many as make no message of so many bytes take longer than times can be added up.
constexpr double kLeastBandwidth = 1e-3;
constexpr double kMostBandwidth = 1e18;

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

double checked_bytes(double bytes, const std::string& what, const std::string& where) {
  if (!(bytes >= 0 && bytes <= kMostBytes))
    throw Error(
        ErrorCode::kUsage,
        kerf::format("{} is {}, which is not within 0 and {} bytes", what, bytes, kMostBytes),
        where);
  return bytes;
}

// What a stage may say of bytes, by its key.
constexpr std::array<std::pair<const char*, double StageBytes::*>, 4> kBytes = {{
    {"F_bytes", &StageBytes::forward},
    {"I_bytes", &StageBytes::input_gradient},
    {"W_bytes", &StageBytes::weight_gradient},
    {"kept_bytes", &StageBytes::kept},
}};

void read_stage(const Json& json, const std::string& where, ActionCosts& costs) {
  check_members(json, {"F", "I", "W", "U", "F_bytes", "I_bytes", "W_bytes", "kept_bytes"}, where);
  costs.stages.push_back({number(json, "F", where), number(json, "I", where),
                          number(json, "W", where),
                          json.contains("U") ? number(json, "U", where) : 0});
  StageBytes& bytes = costs.bytes.emplace_back();
  for (const auto& [key, member] : kBytes)
    if (json.contains(key))
      bytes.*member = checked_bytes(json_number(json, key, where), key, where);
}

// Numbers between commas, or nothing where one is none.
std::optional<std::vector<double>> numbers_of(const std::string& text) {
  std::vector<double> numbers;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    double number = 0;
    const auto [stop, fault] = std::from_chars(text.data() + start, text.data() + end, number);
    if (fault != std::errc() || stop != text.data() + end) return std::nullopt;
    numbers.push_back(number);
    start = end + 1;
  }
  return numbers;
}

}  // namespace

ActionCosts parse_costs(const std::string& text) {
  constexpr std::array<const char*, 4> kNames = {"F", "I", "W", "COMM"};
  const auto costs = numbers_of(text);
  if (!costs || costs->size() > kNames.size())
    throw Error(ErrorCode::kUsage,
                kerf::format("'{}' must be F,I,W or F,I,W,COMM, numbers as in 1,1.2,0.8,0.1, or "
                             "a file",
                             text));
  for (size_t i = 0; i < costs->size(); ++i) checked((*costs)[i], kNames[i], "");
  if (costs->size() < 3)
    throw Error(ErrorCode::kUsage, kerf::format("'{}' has no costs of F, I and W", text));
  return {{}, costs->size() > 3 ? (*costs)[3] : 0, {(*costs)[0], (*costs)[1], (*costs)[2]}};
}

Link parse_link(const std::string& text) {
  const auto numbers = numbers_of(text);
  if (!numbers || numbers->size() > 2)
    throw Error(
        ErrorCode::kUsage,
        kerf::format("'{}' must be LATENCY or LATENCY,BANDWIDTH, numbers as in 5e-5,1e9", text));
  Link link{numbers->front()};
  if (!(link.latency >= 0 && link.latency <= kMostCost))
    throw Error(ErrorCode::kUsage,
                kerf::format("a latency of {} is not within 0 and {}", link.latency, kMostCost));
  if (numbers->size() == 1) return link;
  link.bandwidth = numbers->back();
  if (!(link.bandwidth >= kLeastBandwidth && link.bandwidth <= kMostBandwidth))
    throw Error(ErrorCode::kUsage, kerf::format("a bandwidth of {} is not within {} and {}",
                                                link.bandwidth, kLeastBandwidth, kMostBandwidth));
  return link;
}

void parse_message_bytes(const std::string& text, ActionCosts& costs) {
  const auto numbers = numbers_of(text);
  if (!numbers || numbers->size() > 3)
    throw Error(ErrorCode::kUsage,
                kerf::format("'{}' must be F, or F,I, or F,I,W, numbers of bytes", text));
  for (const double bytes : *numbers) checked_bytes(bytes, "a message's size", "");
  const auto put = [&](StageBytes& stage) {
    stage.forward = (*numbers)[0];
    stage.input_gradient = (*numbers)[numbers->size() > 1 ? 1 : 0];
    if (numbers->size() > 2) stage.weight_gradient = (*numbers)[2];
  };
  put(costs.other_bytes);
  for (StageBytes& stage : costs.bytes) put(stage);
}

Contention parse_contention(const std::string& text) {
  for (const auto& [name, contention] : {std::pair{"none", Contention::kNone},
                                         {"link", Contention::kLink},
                                         {"port", Contention::kPort}})
    if (text == name) return contention;
  throw Error(ErrorCode::kUsage, kerf::format("'{}' is none of none, link and port", text));
}

Links links_of(const partitioner::Capacities& capacities, const std::optional<Link>& every) {
  Links links{every, {}};
  const Link other = every.value_or(Link{});
  for (const auto& [ends, link] : capacities.links)
    links.listed[ends] = {link.seconds.value_or(other.latency),
                          link.bytes_per_second.value_or(other.bandwidth)};
  return links;
}

ActionCosts read_costs(const std::string& text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  check_members(json, {"kerf_costs", "COMM", "stages"}, origin);
  if (json_int(json, "kerf_costs", origin) != kCostsVersion)
    refuse_member(origin, kerf::format("\"kerf_costs\" must be {}", kCostsVersion));
  ActionCosts costs;
  if (json.contains("COMM")) costs.transfer = number(json, "COMM", origin);
  for (const Json& stage : json_array(json, "stages", origin))
    read_stage(stage, kerf::format("{}: stages[{}]", origin, costs.stages.size()), costs);
  if (costs.stages.empty()) refuse_member(origin, "\"stages\" is empty");
  return costs;
}

std::string write_costs(const ActionCosts& costs) {
  const auto readable = [](double cost) {
    return cost > 0 ? std::clamp(cost, kLeastCost, kMostCost) : 0;
  };
  Json stages = Json::array();
  for (size_t number = 0; number < costs.stages.size(); ++number) {
    const StageCosts& each = costs.stages[number];
    Json stage{{"F", readable(each.forward)},
               {"I", readable(each.input_gradient)},
               {"W", readable(each.weight_gradient)}};
    if (each.update > 0) stage["U"] = readable(each.update);
    const StageBytes& bytes = costs.bytes_of_stage(static_cast<int>(number));
    for (const auto& [key, member] : kBytes)
      if (bytes.*member > 0) stage[key] = std::min(bytes.*member, kMostBytes);
    stages.push_back(std::move(stage));
  }
  const Json json{{"kerf_costs", kCostsVersion},
                  {"COMM", readable(costs.transfer)},
                  {"stages", std::move(stages)}};
  return json_text(json, 1) + "\n";
}

}  // namespace kerf::schedmp
