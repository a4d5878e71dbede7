#include "schedmp/checkpoint_folder.h"

#include <unistd.h>

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
constexpr std::string_view kOfWorker = "worker-";
constexpr const char* kSum = "sum_of_the_above";
constexpr int kVersion = 1;
constexpr size_t kMostManifest = size_t{16} << 20;
constexpr int64_t kMostRounds = int64_t{1} << 60;

std::string worker_name(size_t worker) { return kerf::format("{}{}", kOfWorker, worker); }

// What is behind the prefix, where that is a whole number.
std::optional<int64_t> number_behind(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  int64_t number = 0;
  const auto [next, fault] = std::from_chars(name.data() + prefix.size(), end, number);
  if (fault != std::errc() || next != end || number < 0) return std::nullopt;
  return number;
}

// That a run writes into a checkpoint, or had begun to when it was killed (runtime::AtomicFile).
bool is_of_a_checkpoint(std::string_view name) {
  return name == kManifest || name == kScheduler || number_behind(kOfWorker, name) ||
         (name.starts_with(".kerf-") && name.ends_with(".tmp"));
}

// None where the system refuses, in the middle or at the beginning.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code refused;
  for (fs::directory_iterator at(folder, refused); !refused && at != fs::directory_iterator();
       at.increment(refused))
    names.push_back(at->path().filename().string());
  return names;
}

Json json_of(const SnapshotPart& part) {
  return {{"bytes", part.bytes}, {"crc32c", part.checksum}};
}

uint32_t sum_in(const Json& json, const std::string& name, const std::string& where) {
  const int64_t sum = json_int(json, name, where);
  if (sum < 0 || sum > UINT32_MAX) throw Error(ErrorCode::kUsage, name + " is no sum", where);
  return static_cast<uint32_t>(sum);
}

// Adds its bytes to those of `all`.
SnapshotPart part_in(const Json& files, const std::string& name, int64_t& all,
                     const std::string& where) {
  const Json& part = json_at(files, name, where);
  const int64_t bytes = json_int(part, "bytes", where);
  if (bytes < 0 || bytes > INT64_MAX - all)
    throw Error(ErrorCode::kUsage, name + " is of no size that a file has", where);
  all += bytes;
  return {bytes, sum_in(part, "crc32c", where)};
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
  int64_t bytes = 0;
  read.scheduler = part_in(files, kScheduler, bytes, where);
  for (size_t worker = 0; worker + 1 < files.size(); ++worker)
    read.parts.push_back(part_in(files, worker_name(worker), bytes, where));
  if (read.number < 1 || read.round < 1) refuse_manifest("its number is not above 0", where);
  if (read.round > kMostRounds) refuse_manifest("no run has so many rounds", where);
  if (checkpoint_path("", read.number) != checkpoint.filename())
    refuse_manifest(kerf::format("it is of checkpoint {}", read.number), where);
  if (text != text_of(read)) refuse_manifest("it is not what was written", where);
  return read;
}

// What cannot be looked at may be there.
bool has_manifest(const fs::path& checkpoint) {
  std::error_code unknown;
  return fs::status(checkpoint / kManifest, unknown).type() != fs::file_type::not_found;
}

std::vector<NumberedFolder> checkpoints_in(const fs::path& folder) {
  std::vector<NumberedFolder> found;
  for (const std::string& name : names_in(folder))
    if (const auto number = number_behind(kNumbered, name); number.value_or(0) > 0)
      found.push_back({*number, folder / name});
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
  runtime::LocalStore own_files;
  note([&] { check_part(own_files, {scheduler_file(checkpoint), manifest->scheduler}, alive); });
  for (size_t worker = 0; worker < manifest->parts.size(); ++worker)
    note([&] {
      check_part(own_files, {worker_file(checkpoint, worker), manifest->parts[worker]}, alive);
    });
  return faults;
}

void remove_checkpoint(const fs::path& checkpoint) {
  ::unlink((checkpoint / kManifest).c_str());
  for (const std::string& name : names_in(checkpoint))
    if (is_of_a_checkpoint(name)) ::unlink((checkpoint / name).c_str());
  ::rmdir(checkpoint.c_str());
}

void prune(const fs::path& folder, int64_t keep, int64_t newest) {
  for (const auto& [number, path] : checkpoints_in(folder))
    if (number <= newest && keep > 0 && has_manifest(path))
      --keep;
    else
      remove_checkpoint(path);
}

}  // namespace kerf::schedmp
