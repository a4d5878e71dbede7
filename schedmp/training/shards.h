// Where the workers of a run leave their shares of the weights.
#pragma once

#include <filesystem>

#include "runtime/format.h"

namespace kerf::schedmp {

inline std::filesystem::path shard_file(const std::filesystem::path& folder, int worker) {
  return folder / kerf::format("worker-{}.safetensors", worker);
}

}  // namespace kerf::schedmp
