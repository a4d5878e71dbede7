// Files that belong to nobody's checkout: real graphs and models, which lie in shared/data of a
// folder above the sources, or where KERF_DATA says. Tests of them are skipped without them.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace kerf::tests {

inline constexpr const char* kNoSharedData =
    "there is no shared/data above the sources, and KERF_DATA names none";

// `part`: of them, as "onnx". Empty where it is not there.
inline std::filesystem::path shared_data(const std::filesystem::path& sources,
                                         const std::filesystem::path& part) {
  if (const char* named = std::getenv("KERF_DATA")) return std::filesystem::path(named) / part;
  for (auto folder = sources; folder != folder.root_path(); folder = folder.parent_path())
    if (auto data = folder / "shared" / "data" / part; std::filesystem::is_directory(data))
      return data;
  return {};
}

}  // namespace kerf::tests
