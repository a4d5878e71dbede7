// What the loop asks of a worker beside the program's own tasks: a byte before each.
//
//   kUpdate    a task of the program                             -> its result
//   kTraced    the round, and a task                             -> the spans, and its result
//   kSnapshot  a SnapshotOrder: write what this worker has to give
//              to a snapshot that all write together             -> SavedPieces
//   kCommit    a path: write what this worker alone can go on
//              from, in one file                                 -> SavedPieces
//   kRestore   PlacedParts: go on from what this worker wrote,
//              in order                                          -> nothing
//   kLoad      PlacedParts: go on from a snapshot, were it of
//              another number of workers (DividedState)          -> nothing
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace.h"
#include "runtime/wire.h"

namespace kerf::schedmp {

enum class WorkerRequest : char {
  kUpdate = 'u',
  kTraced = 't',
  kSnapshot = 's',
  kCommit = 'c',
  kRestore = 'r',
  kLoad = 'l',
};

inline std::string request_of(WorkerRequest kind, std::string_view what) {
  std::string request(1, static_cast<char>(kind));
  request += what;
  return request;
}

template <class Task>
struct TracedTask {
  int64_t round = 0;
  Task task = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(round, task);
  }
};

template <class Result>
struct TracedResult {
  std::vector<runtime::Span> spans;  // by the worker's clock
  Result result = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(spans, result);
  }
};

// A file of a snapshot.
struct SnapshotPart {
  int64_t bytes = 0;
  uint32_t checksum = 0;  // CRC-32C

  template <class Archive>
  void serialize(Archive& archive) {
    archive(bytes, checksum);
  }
  bool operator==(const SnapshotPart&) const = default;
};
// Of what could not be written.
inline constexpr SnapshotPart kNoRoom{-1, 0};
struct SavedPart {
  SnapshotPart part;
  std::string failure = {};  // why it could not be written

  template <class Archive>
  void serialize(Archive& archive) {
    archive(part, failure);
  }
};
// Of a worker: the files that it wrote, in order (piece_writer.h).
using SnapshotPieces = std::vector<SnapshotPart>;
struct SavedPieces {
  SnapshotPieces pieces;
  std::string failure = {};  // why the last could not be written

  template <class Archive>
  void serialize(Archive& archive) {
    archive(pieces, failure);
  }
};
struct SnapshotOrder {
  std::string file;        // the first
  int64_t most_bytes = 0;  // of each

  template <class Archive>
  void serialize(Archive& archive) {
    archive(file, most_bytes);
  }
};
struct PlacedPart {
  std::string file;
  SnapshotPart part;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(file, part);
  }
};

}  // namespace kerf::schedmp
