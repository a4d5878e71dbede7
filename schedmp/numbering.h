// What numbers of a data set stand for, where the data set numbered its own words or classes: kept
// with the weights that were trained by it, so that another file is numbered alike. Pure functions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kerf::schedmp {

struct Numbering {
  std::string what;  // "classes", of which names[i] is i, or "words", of which it is i + 1
  std::vector<std::string> names;
  bool operator==(const Numbering&) const = default;
};

// In the metadata of weights.
inline constexpr const char* kNumberingKey = "numbering";

// As JSON: names are texts, or where they are no UTF-8, lists of bytes.
std::string write_numbering(const Numbering& numbering);
// Throws Error{kUsage} at `where`.
Numbering read_numbering(const std::string& text, const std::string& where);
// Empty where the file says nothing of it, or is none: "". Throws as SafetensorsReader.
std::optional<Numbering> numbering_of_weights(const std::filesystem::path& file);

}  // namespace kerf::schedmp
