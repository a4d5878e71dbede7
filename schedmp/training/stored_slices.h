// The shares of tensors that workers leave in checkpoints, as safetensors files: each says of which
// tensor it is and which box of it, so that they can be read whichever worker had them.
//
//   metadata "kerf_slices"   {"weights/0/fc1.weight": {"kind": "weights", "tensor": "fc1.weight",
//                             "shape": [500, 800], "box": ["0-249", "all"]}, ...}
//
// Kinds: "weights", "state-0", "state-1" of an optimizer (ops/optimizer.h), "best" weights of a run
// with patience; those of replicas and of L-BFGS are in replica_slices.h. Boxes may overlap; what
// they have of a tensor twice is equal. Used by one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/layout.h"
#include "schedmp/piece_writer.h"
#include "schedmp/safetensors.h"
#include "schedmp/snapshot_part.h"

namespace kerf::schedmp {

inline constexpr const char* kSlicesKey = "kerf_slices";
inline constexpr const char* kWeights = "weights";
inline constexpr const char* kBestWeights = "best";
std::string state_kind(int state);

struct StoredSlice {
  std::string kind;
  std::string tensor;
  ops::ValueSpec whole;  // the tensor's
  ops::Box box;
  std::function<void(const ByteSink& to)> write;  // its bytes, dense
};

// Files of them all, one behind the other: where a piece is full a slice is cut between two rows,
// and what is left of it goes into the next.
void write_slices(const std::vector<StoredSlice>& slices, PieceWriter& to);

class StoredSlices {
 public:
  // Reads what is in the files, of which one is open at a time: each of N workers reads those of N.
  // Throws Error{kUsage} that names the file, as all do. What is read of a file is checked before:
  // all of it against its sum, once. `store` outlives this.
  StoredSlices(runtime::Store& store, const std::vector<PlacedPart>& parts, Alive alive = {});

  bool has(const std::string& kind) const;
  bool has(const std::string& kind, const std::string& tensor) const;
  // One that has some of it, for errors; where none has, the first.
  std::string file_of(const std::string& kind, const std::string& tensor) const;
  // The dense bytes of consecutive indices of an axis of a tensor. What is not wanted of it, and in
  // none of the files, is 0.
  std::string read(const std::string& kind, const std::string& tensor, const ops::ValueSpec& spec,
                   const ops::Box& wanted, const RowRange& rows, int axis = 0);

 private:
  struct File {
    PlacedPart placed;
    std::unique_ptr<SafetensorsReader> reader;
    bool checked = false;
  };
  struct Entry {
    size_t file = 0;
    std::string name;  // in the file
    ops::Shape shape;  // of the whole tensor
    ops::Box box;
  };
  void list(size_t file);
  Entry entry_of(const Json& json, const std::string& where) const;
  SafetensorsReader& checked(size_t file);

  runtime::Store& store_;
  const Alive alive_;
  std::vector<File> files_;
  std::optional<size_t> open_;  // the one file that is
  std::map<std::string, std::map<std::string, std::vector<Entry>>> entries_;  // by kind, by tensor
};

}  // namespace kerf::schedmp
