// Checkpoints as they lie on disk, beside each other:
//
//   FOLDER/checkpoint-1200/manifest.json   of which run it is, its files and their sums
//                          scheduler       what the scheduler's half holds
//                          worker-0        a worker's; of training a safetensors file
//                          worker-0.1      of whoever has more than one piece, the next
//                          worker-1 ...
//   FOLDER/checkpoint-1100/...
//
// The manifest is written last, atomically, and removed first: without one there is no checkpoint.
// It ends with a sum of itself. The highest number counts: steps of training, or rounds.
// Functions of the file system; they throw Error{kUsage} that names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedmp/snapshot_part.h"

namespace kerf::schedmp {

// Names and values that two runs share of which one goes on with the other: flags, what files are
// like.
using RunTold = std::map<std::string, std::string>;

// What a manifest says.
struct Checkpoint {
  std::string program;
  int64_t number = 0;
  int64_t round = 0;                 // of the loop, that comes next
  int64_t workers = 0;               // that wrote it
  std::optional<uint32_t> job = {};  // a sum of what they were told; empty: any can go on
  RunTold run = {};
  SnapshotPart scheduler = {};
  std::vector<SnapshotPieces> parts = {};  // by worker

  int64_t files() const;  // with the scheduler's
  int64_t bytes() const;  // of those
};

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t number);
std::filesystem::path scheduler_file(const std::filesystem::path& checkpoint);
// The first piece of a worker's,
std::filesystem::path worker_file(const std::filesystem::path& checkpoint, size_t worker);
// all of them, in order, and those of all workers.
std::vector<PlacedPart> placed_pieces(const std::filesystem::path& checkpoint,
                                      const Checkpoint& manifest, size_t worker);
std::vector<PlacedPart> placed_pieces(const std::filesystem::path& checkpoint,
                                      const Checkpoint& manifest);

// Throws Error{kUnavailable} where it cannot be written.
void write_manifest(const std::filesystem::path& checkpoint, const Checkpoint& manifest);
Checkpoint read_manifest(const std::filesystem::path& checkpoint);

bool has_manifest(const std::filesystem::path& checkpoint);

// What runs wrote of that name, the highest number first, whole or not (checkpoint_owner.h).
struct NumberedFolder {
  int64_t number = 0;
  std::filesystem::path path;
};
std::vector<NumberedFolder> checkpoints_in(const std::filesystem::path& folder);

bool has_checkpoints(const std::filesystem::path& folder);  // with manifests
// Of a folder without any, for a person.
std::string why_none(const std::filesystem::path& folder);

// What is wrong with it, a line for each file; nothing: it is what was written, to the byte.
std::vector<std::string> faults_of(const std::filesystem::path& checkpoint,
                                   const Alive& alive = {});

// Its manifest goes first. What cannot be removed is left, and what no run of Kerf wrote
// (checkpoint_owner.h), and a folder that such is in: others name theirs so, too.
void remove_checkpoint(const std::filesystem::path& checkpoint);
// Leaves the `keep` highest numbers that have a manifest; one above `newest` is of no run that goes
// on.
void prune(const std::filesystem::path& folder, int64_t keep, int64_t newest = INT64_MAX);

}  // namespace kerf::schedmp
