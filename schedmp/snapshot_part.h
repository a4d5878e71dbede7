// One file of a snapshot: what one half of a program holds, or a piece of it (piece_writer.h). Each
// is used by one thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"
#include "runtime/store.h"
#include "schedmp/worker_request.h"

namespace kerf::schedmp {

// Called now and then meanwhile.
using Alive = std::function<void()>;

// The file as it is written: what is there is whole or nothing. A disk that is full is no error,
// which would end the run: from then on bytes are dropped, and finish() says why. Who writes much
// asks failed() now and then.
class PartWriter {
 public:
  // A worker's; `store` outlives this.
  PartWriter(runtime::Store& store, const std::filesystem::path& path, Alive alive = {});
  // Of this host.
  explicit PartWriter(const std::filesystem::path& path, Alive alive = {});
  void write(std::string_view bytes);
  bool failed() const { return !file_; }
  SavedPart finish();

 private:
  template <class Act>
  void attempt(const Act& act);

  const Alive alive_;
  std::unique_ptr<runtime::WritableFile> file_;  // null: it has failed
  SavedPart saved_;
  int64_t settled_ = 0;  // bytes
};

SavedPart write_part(PartWriter writer, std::string_view bytes);
// Both throw Error{kUsage} that names the file where one is not what was written.
std::string read_parts(runtime::Store& store, const std::vector<PlacedPart>& parts,
                       const Alive& alive = {});
void check_part(runtime::Store& store, const PlacedPart& placed, const Alive& alive = {});

// Who is to go on from what a worker writes: itself alone, or all workers, together from all files.
enum class Reach : uint8_t { kAlone, kTogether };

class PieceWriter;

// The state of a worker's half that is too much for a string, and that no number of workers is
// bound to: what was saved by some is loaded by others, however they divide it.
class DividedState {
 public:
  virtual ~DividedState() = default;
  virtual void save(PieceWriter& to, Reach reach) = 0;
  // Throws Error{kUsage} that names the file where one is not what was written, or all of them lack
  // something.
  virtual void load(const std::vector<PlacedPart>& parts, const Alive& alive) = 0;
};

// Of a half whose program keeps no snapshots.
[[noreturn]] void throw_no_snapshot();
// Gives a half what it held. Throws Error{kUsage} that names the file where the half cannot read
// it.
template <class Half>
void restore_from(runtime::Store& store, const std::vector<PlacedPart>& parts, Half& half,
                  const Alive& alive = {}) {
  const std::string bytes = read_parts(store, parts, alive);
  try {
    half.restore(bytes);
  } catch (const Error& error) {
    throw Error(ErrorCode::kUsage, error.what(), parts.at(0).file);
  }
}

}  // namespace kerf::schedmp
