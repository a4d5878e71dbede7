// Folders of data sets, which may be anything.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/format.h"

namespace kerf::apps {

// False also of what cannot be looked at.
inline bool is_folder(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

// Empty of a folder.
inline std::string why_no_folder(const std::filesystem::path& path) {
  std::error_code fault;
  const auto status = std::filesystem::status(path, fault);
  if (std::filesystem::is_directory(status)) return {};
  const bool unknown = fault && status.type() != std::filesystem::file_type::not_found;
  return unknown ? format("it cannot be read: {}", fault.message()) : "there is no such folder";
}

}  // namespace kerf::apps
