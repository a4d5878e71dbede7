#include "schedmp/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/wire.h"

namespace kerf::schedmp {

namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kScheduler = "scheduler";
constexpr std::string_view kNumbered = "checkpoint-";
constexpr const char* kSum = "sum_of_the_above";
constexpr int kVersion = 1;
constexpr size_t kMostManifest = size_t{16} << 20;

std::string worker_name(size_t worker) { return kerf::format("worker-{}", worker); }

Json json_of(const SnapshotPart& part) {
  return {{"bytes", part.bytes}, {"crc32c", part.checksum}};
}

uint32_t sum_in(const Json& json, const std::string& name, const std::string& where) {
  const int64_t sum = json_int(json, name, where);
  if (sum < 0 || sum > UINT32_MAX) throw Error(ErrorCode::kUsage, name + " is no sum", where);
  return static_cast<uint32_t>(sum);
}

SnapshotPart part_in(const Json& files, const std::string& name, const std::string& where) {
  const Json& part = json_at(files, name, where);
  return {json_int(part, "bytes", where), sum_in(part, "crc32c", where)};
}

Json json_of(const Checkpoint& checkpoint) {
  Json run = Json::object();
  for (const auto& [name, value] : checkpoint.run) run[name] = value;
  Json files{{kScheduler, json_of(checkpoint.scheduler)}};
  for (size_t worker = 0; worker < checkpoint.parts.size(); ++worker)
    files[worker_name(worker)] = json_of(checkpoint.parts[worker]);
  Json json{{"kerf_checkpoint", kVersion},
            {"program", checkpoint.program},
            {"number", checkpoint.number},
            {"round", checkpoint.round},
            {"workers", checkpoint.workers}};
  if (checkpoint.job) json["job"] = *checkpoint.job;
  json["run"] = std::move(run);
  json["files"] = std::move(files);
  return json;
}

// With the sum of all that is before it.
std::string text_of(const Checkpoint& checkpoint) {
  Json json = json_of(checkpoint);
  json[kSum] = runtime::crc32c(json_text(json, 2));
  return json_text(json, 2) + "\n";
}

[[noreturn]] void refuse_manifest(const std::string& why, const std::string& where) {
  throw Error(ErrorCode::kUsage, why, where);
}

}  // namespace

int64_t Checkpoint::bytes() const {
  int64_t all = scheduler.bytes;
  for (const SnapshotPart& part : parts) all += part.bytes;
  return all;
}

fs::path checkpoint_path(const fs::path& folder, int64_t number) {
  return folder / kerf::format("{}{}", kNumbered, number);
}

fs::path scheduler_file(const fs::path& checkpoint) { return checkpoint / kScheduler; }

fs::path worker_file(const fs::path& checkpoint, size_t worker) {
  return checkpoint / worker_name(worker);
}

void write_manifest(const fs::path& checkpoint, const Checkpoint& manifest) {
  runtime::write_file_atomic(checkpoint / kManifest, text_of(manifest));
}

// What it says is written anew and compared: no byte of it is another.
Checkpoint read_manifest(const fs::path& checkpoint) {
  const std::string where = (checkpoint / kManifest).string();
  const std::string text = runtime::read_file(where, kMostManifest);
  const Json json = parse_json(text, where);
  if (json_int(json, "kerf_checkpoint", where) != kVersion)
    refuse_manifest("it is of another version of Kerf", where);
  Checkpoint read{.program = json_string(json, "program", where),
                  .number = json_int(json, "number", where),
                  .round = json_int(json, "round", where),
                  .workers = json_int(json, "workers", where)};
  if (json.contains("job")) read.job = sum_in(json, "job", where);
  const Json& run = json_at(json, "run", where);
  if (!run.is_object()) refuse_manifest("it does not say of which run it is", where);
  for (const auto& [name, value] : run.items()) read.run[name] = json_string(run, name, where);
  const Json& files = json_at(json, "files", where);
  if (!files.is_object() || read.workers < 1 ||
      files.size() != static_cast<size_t>(read.workers) + 1)
    refuse_manifest("its files are not those of its workers", where);
  read.scheduler = part_in(files, kScheduler, where);
  for (size_t worker = 0; worker + 1 < files.size(); ++worker)
    read.parts.push_back(part_in(files, worker_name(worker), where));
  if (read.number < 1 || read.round < 1) refuse_manifest("its number is not above 0", where);
  if (text != text_of(read)) refuse_manifest("it is not what was written", where);
  return read;
}

bool has_manifest(const fs::path& checkpoint) { return fs::exists(checkpoint / kManifest); }

std::vector<NumberedFolder> checkpoints_in(const fs::path& folder) {
  std::vector<NumberedFolder> found;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kNumbered)) continue;
    const char* const end = name.data() + name.size();
    int64_t number = 0;
    const auto [next, fault] = std::from_chars(name.data() + kNumbered.size(), end, number);
    if (fault == std::errc() && next == end && number > 0) found.push_back({number, entry.path()});
  }
  std::ranges::sort(found, std::greater(), &NumberedFolder::number);
  return found;
}

bool has_checkpoints(const fs::path& folder) {
  return std::ranges::any_of(checkpoints_in(folder), has_manifest, &NumberedFolder::path);
}

std::vector<std::string> faults_of(const fs::path& checkpoint, const Alive& alive) {
  std::vector<std::string> faults;
  const auto note = [&](const auto& look) {
    try {
      look();
    } catch (const Error& error) {
      faults.emplace_back(error.what());
    }
  };
  std::optional<Checkpoint> manifest;
  note([&] { manifest = read_manifest(checkpoint); });
  if (!manifest) return faults;
  note([&] { check_part({scheduler_file(checkpoint), manifest->scheduler}, alive); });
  for (size_t worker = 0; worker < manifest->parts.size(); ++worker)
    note([&] { check_part({worker_file(checkpoint, worker), manifest->parts[worker]}, alive); });
  return faults;
}

void remove_checkpoint(const fs::path& checkpoint) {
  std::error_code ignored;
  fs::remove(checkpoint / kManifest, ignored);
  fs::remove_all(checkpoint, ignored);
}

int prune(const fs::path& folder, int64_t keep, int64_t newest) {
  int removed = 0;
  for (const auto& [number, path] : checkpoints_in(folder)) {
    if (number <= newest && keep > 0 && has_manifest(path)) {
      --keep;
      continue;
    }
    remove_checkpoint(path);
    ++removed;
  }
  return removed;
}

}  // namespace kerf::schedmp
