// Reads what of a request a plan keeps (request.h).
#include "ops/optimizer.h"
#include "partitioner/plan_reader.h"
#include "partitioner/unsound.h"

namespace kerf::partitioner {

namespace {

constexpr int kMostOfRequest = 1 << 16;  // slots, threads: beyond any use

void read_setting(const Json& json, const std::string& where, Setting& setting) {
  const auto count = [&](const char* key, int least, int& to) {
    if (!json.contains(key)) return;
    to = json_small(json, key, least, where);
    if (to > kMostOfRequest)
      refuse_member(where, format("\"{}\" is {}, but at most {}", key, to, kMostOfRequest));
  };
  count("slots", 1, setting.slots);
  count("optimizer_states", 0, setting.optimizer_states);
  if (setting.optimizer_states > ops::kMostStates)
    refuse_member(where, format("\"optimizer_states\" is {}, but no optimizer has more than {}",
                                setting.optimizer_states, ops::kMostStates));
  count("threads", 1, setting.threads);
  const auto says = [&](const char* key) {
    return json.contains(key) && json_bool(json, key, where);
  };
  if (says("mirrored")) setting.slot_place = SlotPlace::kBothEnds;
  if (!says("exported")) return;
  if (setting.slot_place == SlotPlace::kBothEnds)
    throw Unsound("\"exported\" slots of a GPU are not \"mirrored\"; leave one of the two out",
                  where);
  setting.slot_place = SlotPlace::kExported;
}

// Above 0 it takes a state, and none at 0.
void read_momentum(const Json& json, const std::string& where, KeptRequest& request) {
  const double momentum = json_finite(json, "momentum", where);
  if (momentum < 0 || momentum >= 1)
    refuse_member(where, format("\"momentum\" is {}, which is not within [0, 1)", momentum));
  int& states = request.setting.optimizer_states;
  if (!json.contains("optimizer_states")) states = momentum > 0 ? 1 : 0;
  if ((momentum > 0) != (states > 0))
    throw Unsound(
        format("\"momentum\" {} contradicts \"optimizer_states\" {}; leave one of the two out",
               momentum, states),
        where);
  request.momentum = momentum;
}

// What it takes is what the request says, and it has no momentum that is not its own.
void read_optimizer(const Json& json, const std::string& where, KeptRequest& request) {
  request.optimizer = json_string(json, "optimizer", where);
  const auto least = parsed(
      +[](const std::string& name) { return ops::Optimizer({.name = name}).states(); },
      request.optimizer, where + ".optimizer");
  int& states = request.setting.optimizer_states;
  if (request.optimizer == "sgd") return;
  if (!json.contains("optimizer_states")) states = least;
  if (states != least || request.momentum.value_or(0) != 0)
    throw Unsound(format("\"optimizer\" \"{}\" contradicts \"optimizer_states\" {} or "
                         "\"momentum\" {}; leave them out",
                         request.optimizer, states, request.momentum.value_or(0)),
                  where);
}

}  // namespace

KeptRequest read_request(const PlanFile& file) {
  const Json& json = json_at(file.json, "request", file.origin);
  const std::string where = file.at("request");
  check_members(
      json,
      {"source", "memory", "objective", "slots", "mirrored", "exported", "optimizer_states",
       "threads", "momentum", "optimizer", "profile", "devices", "steering", "pairs", "trains"},
      where);
  KeptRequest request;
  if (json.contains("source")) request.source = json_string(json, "source", where);
  if (json.contains("memory")) request.memory = json_int(json, "memory", where);
  if (request.memory.value_or(1) < 1) refuse_member(where, "\"memory\" must be at least 1 byte");
  if (json.contains("objective"))
    request.minimise =
        parsed(parse_minimise, json_string(json, "objective", where), where + ".objective");
  read_setting(json, where, request.setting);
  if (json.contains("pairs")) request.pairs = json_bool(json, "pairs", where);
  if (json.contains("trains")) request.trains = json_bool(json, "trains", where);
  if (json.contains("momentum")) read_momentum(json, where, request);
  if (json.contains("optimizer")) read_optimizer(json, where, request);
  if (json.contains("profile")) request.profile = read_profile(json["profile"], where + ".profile");
  if (json.contains("devices"))
    request.capacities = read_capacities(json["devices"], where + ".devices");
  if (json.contains("steering"))
    request.steering = read_steering(json["steering"], where + ".steering");
  return request;
}

}  // namespace kerf::partitioner
