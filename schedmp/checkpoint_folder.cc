#include "schedmp/checkpoint_folder.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <unordered_map>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/wire.h"
#include "schedmp/checkpoint_owner.h"
#include "schedmp/piece_writer.h"

namespace kerf::schedmp {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNumbered = "checkpoint-";
constexpr const char* kSum = "sum_of_the_above";
constexpr int kVersion = 1;
constexpr int kVersionOfPieces = 2;  // where a worker has several
constexpr size_t kMostManifest = size_t{16} << 20;
constexpr int64_t kMostRounds = int64_t{1} << 60;

std::string worker_name(size_t worker, size_t piece = 0) {
  return piece_file(kerf::format("{}{}", kOfWorker, worker), piece).string();
}

Json json_of(const SnapshotPart& part) {
  return {{"bytes", part.bytes}, {"crc32c", part.checksum}};
}

uint32_t sum_in(const Json& json, const std::string& name, const std::string& where) {
  const int64_t sum = json_int(json, name, where);
  if (sum < 0 || sum > UINT32_MAX) throw Error(ErrorCode::kUsage, name + " is no sum", where);
  return static_cast<uint32_t>(sum);
}

// The files of a manifest.
class Files {
 public:
  Files(const Json& files, const std::string& where) : where_(where) {
    // A Json looks at its names in turn.
    for (const auto& [name, file] : files.items()) files_.emplace(name, &file);
  }

  size_t taken() const { return taken_; }
  bool has(const std::string& name) const { return files_.contains(name); }
  SnapshotPart take(const std::string& name) {
    const auto found = files_.find(name);
    if (found == files_.end())
      throw Error(ErrorCode::kUsage, "its files are not those of its workers", where_);
    const int64_t bytes = json_int(*found->second, "bytes", where_);
    if (bytes < 0 || bytes > INT64_MAX - bytes_)
      throw Error(ErrorCode::kUsage, name + " is of no size that a file has", where_);
    bytes_ += bytes;
    ++taken_;
    return {bytes, sum_in(*found->second, "crc32c", where_)};
  }

 private:
  const std::string& where_;
  std::unordered_map<std::string, const Json*> files_;
  size_t taken_ = 0;
  int64_t bytes_ = 0;  // of those
};

void read_files(const Json& json, const std::string& where, Checkpoint& to) {
  Files files(json, where);
  to.scheduler = files.take(kSchedulerName);
  for (size_t worker = 0; worker < static_cast<size_t>(to.workers); ++worker) {
    SnapshotPieces& pieces = to.parts.emplace_back(SnapshotPieces{files.take(worker_name(worker))});
    while (files.has(worker_name(worker, pieces.size())))
      pieces.push_back(files.take(worker_name(worker, pieces.size())));
  }
  if (files.taken() != json.size())
    throw Error(ErrorCode::kUsage, "its files are not those of its workers", where);
}

int version_of(const Checkpoint& checkpoint) {
  const auto is_one = [](const SnapshotPieces& pieces) { return pieces.size() == 1; };
  return std::ranges::all_of(checkpoint.parts, is_one) ? kVersion : kVersionOfPieces;
}

Json json_of(const Checkpoint& checkpoint) {
  Json run = Json::object();
  for (const auto& [name, value] : checkpoint.run) run[name] = value;
  Json files{{kSchedulerName, json_of(checkpoint.scheduler)}};
  // Not by files[name], which looks at all that are there.
  for (size_t worker = 0; worker < checkpoint.parts.size(); ++worker)
    for (size_t piece = 0; piece < checkpoint.parts[worker].size(); ++piece)
      files.get_ref<Json::object_t&>().emplace_back(worker_name(worker, piece),
                                                    json_of(checkpoint.parts[worker][piece]));
  Json json{{kCheckpointKey, version_of(checkpoint)},
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

int64_t Checkpoint::files() const {
  int64_t all = 1;
  for (const SnapshotPieces& pieces : parts) all += std::ssize(pieces);
  return all;
}

int64_t Checkpoint::bytes() const {
  int64_t all = scheduler.bytes;
  for (const SnapshotPieces& pieces : parts)
    for (const SnapshotPart& piece : pieces) all += piece.bytes;
  return all;
}

fs::path checkpoint_path(const fs::path& folder, int64_t number) {
  return folder / kerf::format("{}{}", kNumbered, number);
}

fs::path scheduler_file(const fs::path& checkpoint) { return checkpoint / kSchedulerName; }

fs::path worker_file(const fs::path& checkpoint, size_t worker) {
  return checkpoint / worker_name(worker);
}

std::vector<PlacedPart> placed_pieces(const fs::path& checkpoint, const Checkpoint& manifest,
                                      size_t worker) {
  const fs::path first = worker_file(checkpoint, worker);
  std::vector<PlacedPart> placed;
  for (const SnapshotPart& piece : manifest.parts.at(worker))
    placed.push_back({piece_file(first, placed.size()).string(), piece});
  return placed;
}

std::vector<PlacedPart> placed_pieces(const fs::path& checkpoint, const Checkpoint& manifest) {
  std::vector<PlacedPart> all;
  for (size_t worker = 0; worker < manifest.parts.size(); ++worker)
    std::ranges::move(placed_pieces(checkpoint, manifest, worker), std::back_inserter(all));
  return all;
}

void write_manifest(const fs::path& checkpoint, const Checkpoint& manifest) {
  runtime::write_file_atomic(checkpoint / kManifestName, text_of(manifest));
}

// What it says is written anew and compared: no byte of it is another.
Checkpoint read_manifest(const fs::path& checkpoint) {
  const std::string where = (checkpoint / kManifestName).string();
  const std::string text = runtime::read_file(where, kMostManifest);
  const Json json = parse_json(text, where);
  const int64_t version = json_int(json, kCheckpointKey, where);
  if (version != kVersion && version != kVersionOfPieces)
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
  if (!files.is_object() || read.workers < 1)
    refuse_manifest("its files are not those of its workers", where);
  read_files(files, where, read);
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
  return fs::status(checkpoint / kManifestName, unknown).type() != fs::file_type::not_found;
}

std::vector<NumberedFolder> checkpoints_in(const fs::path& folder) {
  std::vector<NumberedFolder> found;
  std::error_code refused;
  for (const std::string& name : names_in(folder, refused)) {
    const int64_t number = number_behind(kNumbered, name).value_or(0);
    if (number == 0) continue;
    const CheckpointOwner owner = owner_of(folder / name);
    if (owner == CheckpointOwner::kKerf || owner == CheckpointOwner::kUnknown)
      found.push_back({number, folder / name});
  }
  std::ranges::sort(found, std::greater(), &NumberedFolder::number);
  return found;
}

bool has_checkpoints(const fs::path& folder) {
  return std::ranges::any_of(checkpoints_in(folder), has_manifest, &NumberedFolder::path);
}

std::string why_none(const fs::path& folder) {
  const bool is_one = owner_of(folder) == CheckpointOwner::kKerf && has_manifest(folder);
  return is_one ? "it is a checkpoint itself: name the folder that it lies in"
                : "there is no checkpoint in it";
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
  for (const PlacedPart& placed : placed_pieces(checkpoint, *manifest))
    note([&] { check_part(own_files, placed, alive); });
  return faults;
}

void remove_checkpoint(const fs::path& checkpoint) {
  if (owner_of(checkpoint) != CheckpointOwner::kKerf) return;
  ::unlink((checkpoint / kManifestName).c_str());
  std::error_code refused;
  for (const std::string& name : names_in(checkpoint, refused))
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
