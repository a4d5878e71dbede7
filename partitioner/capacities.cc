#include "partitioner/capacities.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "partitioner/plan.h"
#include "partitioner/plan_members.h"
#include "runtime/format.h"

namespace kerf::partitioner {

namespace {

constexpr int kDevicesVersion = 1;
// Of speeds and links: beyond any two devices, and no product of them overflows.
constexpr double kMostTimes = 1e6;
constexpr double kMostRate = 1e18;
constexpr double kMostSeconds = 1e6;

double number_within(const Json& json, const char* key, double least, double most,
                     const std::string& where) {
  const Json& value = json_at(json, key, where);
  if (!value.is_number())
    refuse_member(where, format("\"{}\" is {}, but a number is wanted", key, json_text(value)));
  const auto number = value.get<double>();
  if (!(number >= least && number <= most))
    refuse_member(where, format("\"{}\" is {}, which is not within {} and {}", key,
                                json_text(value), least, most));
  return number;
}

Capacity read_capacity(const Json& json, const std::string& where) {
  check_members(json, {"speed", "memory"}, where);
  Capacity capacity;
  capacity.speed = number_within(json, "speed", 1 / kMostTimes, kMostTimes, where);
  if (!json.contains("memory")) return capacity;
  capacity.memory = json_int(json, "memory", where);
  if (*capacity.memory < 1)
    refuse_member(where, format("\"memory\" is {}, but must be at least 1 byte", *capacity.memory));
  return capacity;
}

int worker_number(const std::string& key, size_t workers, const std::string& where) {
  int worker = -1;
  const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), worker);
  const bool padded = key.starts_with('-') || (key.size() > 1 && key.front() == '0');
  if (fault != std::errc() || end != key.data() + key.size() || padded)
    refuse_member(where, format("\"{}\" is no number of a worker; they are numbered from 0", key));
  if (static_cast<size_t>(worker) >= workers)
    refuse_member(where,
                  format("there is a worker {}, but with {} listed they are numbered 0 to "
                         "{}; list every worker",
                         worker, plural(static_cast<int64_t>(workers), "worker"), workers - 1));
  return worker;
}

void read_listed_workers(const Json& json, const std::string& where, Capacities& capacities) {
  if (!json.is_object() || json.empty())
    refuse_member(where,
                  "\"workers\" wants an object, an entry for each worker: {\"0\": {\"speed\": 1}, "
                  "...}");
  if (json.size() > kMostWorkers)
    refuse_member(where, format("there are {} workers, but a plan has at most {}", json.size(),
                                kMostWorkers));
  capacities.workers.resize(json.size());
  for (const auto& [key, value] : json.items()) {
    const int worker = worker_number(key, json.size(), where);
    capacities.workers[static_cast<size_t>(worker)] =
        read_capacity(value, format("{}: worker {}", where, worker));
  }
}

void read_link(const Json& json, const std::string& where, Capacities& capacities) {
  check_members(json, {"between", "bytes_per_second", "seconds"}, where);
  const std::vector<int> ends =
      json_numbers(json_array(json, "between", where), where + ".between");
  if (ends.size() != 2 || ends[0] == ends[1])
    refuse_member(where, "\"between\" wants the numbers of two workers");
  for (const int worker : ends)
    if (worker >= std::ssize(capacities.workers))
      refuse_member(where, format("there is no worker {}; they are numbered 0 to {}", worker,
                                  capacities.workers.size() - 1));
  LinkSpeed link;
  if (json.contains("bytes_per_second"))
    link.bytes_per_second = number_within(json, "bytes_per_second", 1, kMostRate, where);
  if (json.contains("seconds"))
    link.seconds = number_within(json, "seconds", 0, kMostSeconds, where);
  const std::pair key(std::min(ends[0], ends[1]), std::max(ends[0], ends[1]));
  if (!capacities.links.emplace(key, link).second)
    refuse_member(
        where, format("the link between workers {} and {} is there twice", key.first, key.second));
}

}  // namespace

double Capacities::speed_of(int worker) const {
  return worker >= 0 && worker < std::ssize(workers) ? workers[static_cast<size_t>(worker)].speed
                                                     : 1;
}

double Capacities::speed_of_all(int count) const {
  double sum = 0;
  for (int worker = 0; worker < count; ++worker) sum += speed_of(worker);
  return sum;
}

bool Capacities::has_caps() const {
  return std::any_of(workers.begin(), workers.end(),
                     [](const Capacity& device) { return device.memory.has_value(); });
}

std::optional<int64_t> Capacities::memory_of(int worker) const {
  if (worker < 0 || worker >= std::ssize(workers)) return std::nullopt;
  return workers[static_cast<size_t>(worker)].memory;
}

const LinkSpeed* Capacities::link_between(int worker, int other) const {
  const auto found = links.find({std::min(worker, other), std::max(worker, other)});
  return found == links.end() ? nullptr : &found->second;
}

std::vector<double> Capacities::distinct_speeds() const {
  std::vector<double> speeds;
  for (const Capacity& each : workers) speeds.push_back(each.speed);
  if (speeds.empty()) speeds.push_back(1);
  std::sort(speeds.begin(), speeds.end());
  speeds.erase(std::unique(speeds.begin(), speeds.end()), speeds.end());
  return speeds;
}

int Capacities::speed_number_of(int worker) const {
  const std::vector<double> speeds = distinct_speeds();
  const auto found = std::find(speeds.begin(), speeds.end(), speed_of(worker));
  return found == speeds.end() ? 0 : static_cast<int>(found - speeds.begin());
}

Json capacities_json(const Capacities& capacities) {
  Json workers = Json::object();
  for (size_t worker = 0; worker < capacities.workers.size(); ++worker) {
    const Capacity& each = capacities.workers[worker];
    Json& one = workers[std::to_string(worker)] = {{"speed", each.speed}};
    if (each.memory) one["memory"] = *each.memory;
  }
  Json json{{"workers", std::move(workers)}};
  for (const auto& [ends, link] : capacities.links) {
    Json one{{"between", {ends.first, ends.second}}};
    if (link.bytes_per_second) one["bytes_per_second"] = *link.bytes_per_second;
    if (link.seconds) one["seconds"] = *link.seconds;
    json["links"].push_back(std::move(one));
  }
  return json;
}

Capacities read_capacities(const Json& json, const std::string& where) {
  check_members(json, {"kerf_devices", "workers", "links"}, where);
  Capacities capacities;
  read_listed_workers(json_at(json, "workers", where), where, capacities);
  if (json.contains("links")) {
    int number = 0;
    for (const Json& link : json_array(json, "links", where))
      read_link(link, format("{}: links[{}]", where, number++), capacities);
  }
  return capacities;
}

Capacities read_devices(const std::string& text, const std::string& origin,
                        std::optional<int> workers) {
  const Json json = parse_json(text, origin);
  if (!json.is_object() || !json.contains("kerf_devices"))
    throw Error(ErrorCode::kUsage,
                "this is no file of devices; write {\"kerf_devices\": 1, \"workers\": {\"0\": "
                "{\"speed\": 1}, ...}}",
                origin);
  if (const int64_t version = json_int(json, "kerf_devices", origin); version != kDevicesVersion)
    throw Error(ErrorCode::kUsage,
                format("this Kerf reads devices of version {}, not {}", kDevicesVersion, version),
                origin);
  Capacities capacities = read_capacities(json, origin);
  const auto listed = static_cast<int>(capacities.workers.size());
  if (workers && *workers > listed)
    throw Error(ErrorCode::kUsage,
                format("the plan is for {} workers, but worker {} is not listed; list it, or use "
                       "--workers {}",
                       *workers, listed, listed),
                origin);
  if (workers && *workers < listed)
    throw Error(ErrorCode::kUsage,
                format("there is no worker {}: the plan is for {}; leave --workers out, or the "
                       "worker",
                       *workers, plural(*workers, "worker")),
                origin);
  return capacities;
}

}  // namespace kerf::partitioner
