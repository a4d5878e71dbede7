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

NextFlags flags_to_go_on(const fs::path& folder, const Rebalanced& rebalanced, const Json& profile,
                         const partitioner::Capacities& devices, const partitioner::Model& model) {
  NextFlags flags;
  flags["--rebalanced"] = write_rebalanced(folder, rebalanced);
  const std::string times = flags["--profile"] = write(folder, kProfileFile, profile);
  std::ignore = read_profile_file(times, model);
  flags["--devices"] = write_devices(folder, devices);
  return flags;
}

NextFlags flags_of_fewer(const fs::path& folder, int workers, const Rebalanced& rebalanced) {
  partitioner::Capacities alike;
  alike.workers.resize(static_cast<size_t>(workers));
  NextFlags flags;
  flags["--rebalanced"] = write_rebalanced(folder, rebalanced);
  flags["--devices"] = write_devices(folder, alike);
  return flags;
}

void remove_rebalance_files(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kRebalancedFile, ignored)) return;
  for (const char* name : {kProfileFile, kDevicesFile, kRebalancedFile})
    fs::remove(folder / name, ignored);
  fs::remove(folder, ignored);
}

fs::path strange_file(const fs::path& folder) {
  std::error_code unknown;
  if (fs::exists(folder / kRebalancedFile, unknown)) return {};
  for (const char* name : {kProfileFile, kDevicesFile})
    if (fs::exists(folder / name, unknown)) return folder / name;
  return {};
}

bool lies_within(const std::string& file, const fs::path& folder) {
  std::error_code unknown;
  const fs::path at = fs::weakly_canonical(fs::absolute(file), unknown);
  const fs::path within = fs::weakly_canonical(fs::absolute(folder), unknown);
  return at == within || at.parent_path() == within;
}

}  // namespace kerf::apps
