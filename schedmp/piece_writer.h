// What a worker gives to a snapshot, as pieces: files beside each other, none larger than disks,
// archives and people who copy them take, in each of which a changed byte is found by itself.
//
//   worker-3     the first of worker 3
//   worker-3.1   the second ...
//
// Each is written once the one before is whole. Used by one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "runtime/store.h"
#include "schedmp/snapshot_part.h"
#include "schedmp/worker_request.h"

namespace kerf::schedmp {

inline constexpr int64_t kUndivided = INT64_MAX;

// Where the piece of that number lies; 0: `first` itself.
std::filesystem::path piece_file(const std::filesystem::path& first, size_t piece);

class PieceWriter {
 public:
  // Pieces of `most_bytes` beside a header; kUndivided: there is one. `store` outlives this.
  PieceWriter(runtime::Store& store, std::filesystem::path first, int64_t most_bytes,
              Alive alive = {});
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;

  int64_t most_bytes() const { return most_bytes_; }
  void begin();  // the next piece, for what is written from now on
  void write(std::string_view bytes);
  // As of a PartWriter: what is written from then on is dropped.
  bool failed() const;
  SavedPieces finish();  // of one piece or more

 private:
  void end();

  runtime::Store& store_;
  const std::filesystem::path first_;
  const int64_t most_bytes_;
  const Alive alive_;
  std::optional<PartWriter> piece_;
  SavedPieces saved_;
};

// Bytes that may be cut anywhere: restore_from() lays them together.
void write_pieces(std::string_view bytes, PieceWriter& to);

}  // namespace kerf::schedmp
