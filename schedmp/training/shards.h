// Where the workers of a run leave the shares of the weights, one file a part.
#pragma once

#include <filesystem>

#include "runtime/format.h"

namespace kerf::schedmp {

inline std::filesystem::path shard_file(const std::filesystem::path& folder, int part) {
  return folder / kerf::format("part-{}.safetensors", part);
}

}  // namespace kerf::schedmp
