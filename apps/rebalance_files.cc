#include "apps/rebalance_files.h"

#include <system_error>
#include <tuple>
#include <utility>

#include "apps/profile_file.h"
#include "apps/report/json_fields.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostText = 1 << 24;  // bytes
constexpr const char* kDevicesFile = "devices.json";
constexpr const char* kRebalancedFile = "rebalanced.json";

std::string write(const fs::path& folder, const char* name, const Json& json) {
  std::error_code failed;
  fs::create_directories(folder, failed);  // what fails shows below
  runtime::write_file_atomic(folder / name, json_text(json, 1) + "\n");
  return (folder / name).string();
}

std::string write_devices(const fs::path& folder, const partitioner::Capacities& capacities) {
  Json devices = {{"kerf_devices", 1}};
  devices.update(partitioner::capacities_json(capacities));
  std::string file = write(folder, kDevicesFile, devices);
  std::ignore = partitioner::read_devices(runtime::read_file(file, kMostText), file,
                                          static_cast<int>(capacities.workers.size()));
  return file;
}

std::string write_rebalanced(const fs::path& folder, const Rebalanced& rebalanced) {
  std::string file =
      write(folder, kRebalancedFile,
            {{"left_ns", rebalanced.left_ns}, {"rebalances", to_json(rebalanced.all)}});
  std::ignore = read_rebalanced(file);
  return file;
}

}  // namespace

Rebalanced read_rebalanced(const std::string& file) {
  const Json json = parse_json(runtime::read_file(file, kMostText), file);
  Rebalanced rebalanced{{}, json_int(json, "left_ns", file)};
  for (const Json& each : json_array(json, "rebalances", file))
    from_json(each, file, rebalanced.all.emplace_back());
  return rebalanced;
}

std::vector<std::string> flags_to_go_on(const fs::path& folder, const Rebalanced& rebalanced,
                                        const Json& profile, const partitioner::Capacities& devices,
                                        const partitioner::Model& model) {
  std::string known = write_rebalanced(folder, rebalanced);
  const std::string times = write(folder, kProfileFile, profile);
  std::ignore = read_profile_file(times, model);
  return {"--profile",    times,           "--devices", write_devices(folder, devices),
          "--rebalanced", std::move(known)};
}

std::vector<std::string> flags_of_fewer(const fs::path& folder, int workers,
                                        const Rebalanced& rebalanced) {
  partitioner::Capacities alike;
  alike.workers.resize(static_cast<size_t>(workers));
  return {"--devices",    write_devices(folder, alike),
          "--rebalanced", write_rebalanced(folder, rebalanced),
          kReturningFlag, returning_text({})};
}

void remove_rebalance_files(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return;
  for (const char* name : {kProfileFile, kDevicesFile, kRebalancedFile})
    fs::remove(folder / name, ignored);
  fs::remove(folder, ignored);
}

// By host: the system has room for 128 KiB of a flag.
std::string returning_text(const std::vector<runtime::Returning>& returning) {
  Json hosts = Json::object();
  for (const runtime::Returning& each : returning)
    hosts[each.origin.host].push_back({{"worker", each.worker}, {"process", each.origin.process}});
  return json_text(hosts);
}

std::vector<runtime::Returning> read_returning(const std::string& text) {
  std::vector<runtime::Returning> all;
  const Json hosts = parse_json(text, kReturningFlag);
  for (const auto& [host, workers] : hosts.items())
    for (const Json& each : json_array(hosts, host, kReturningFlag))
      all.push_back({{host, static_cast<int>(json_int(each, "process", kReturningFlag))},
                     static_cast<int>(json_int(each, "worker", kReturningFlag))});
  return all;
}

}  // namespace kerf::apps
