// What the value of a flag may be, beyond what CLI11 converts by itself: its refusals name the
// flag. Pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/error.h"
#include "runtime/format.h"

namespace kerf::apps {

// Throws Error{kUsage} at the flag (or the file) unless `fine`.
inline void require(bool fine, const std::string& flag, const std::string& what) {
  if (!fine) throw Error(ErrorCode::kUsage, what, flag);
}

// A text's refusal becomes the flag's.
template <class Parse>
auto at_flag(const std::string& flag, const Parse& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), flag);
  }
}

// Where it was given, it must be within 1 and `most`.
template <class T>
void check_range(const std::optional<T>& value, const std::string& flag, int64_t most) {
  if (value)
    require(*value >= 1 && *value <= most, flag, format("{} is not within 1 and {}", *value, most));
}

// Makes a number of bytes of "65536", "500M", "1.5G", "64KiB": units of 1024, in any case, with or
// without B.
CLI::Validator byte_size();

// Decimal digits of a number within these: CLI11 wraps negative numbers, cuts large ones to the
// largest, and reads 010 and 0x10 as C does.
template <class T>
CLI::Validator whole_number(T least = 0, T most = std::numeric_limits<T>::max()) {
  const auto check = [least, most](const std::string& text) -> std::string {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [next, fault] = std::from_chars(text.data(), end, value);
    const bool padded = text.size() > 1 && text.front() == '0';
    const bool digits = fault == std::errc() && next == end && text.front() != '-' && !padded;
    if (digits && value >= least && value <= most) return {};
    return format("\"{}\" is no whole number from {} to {}", text, least, most);
  };
  return {check, ""};
}

// Of a flag that takes a fraction.
CLI::Validator number_within(double least, double most);

// Whether there is a folder that a file to be written goes into.
bool can_hold_file(const std::filesystem::path& file);
// Where a folder is named that is not there. Throws Error{kUsage} where it cannot be made.
void make_folder_for(const std::string& folder);

void add_seed_flag(CLI::App& command, uint64_t& seed, const std::string& help);

// What `parse` takes; its refusal, an Error, becomes the flag's.
CLI::Validator parsed_by(const std::function<void(const std::string&)>& parse);

// Refuses "" as the value of any option of any command: an unset variable of a script.
void refuse_empty_values(CLI::App& app);

}  // namespace kerf::apps
