#include "apps/main/flag_values.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

// 1 for none, 0 for an unknown one.
double bytes_of_unit(std::string unit) {
  std::ranges::transform(unit, unit.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  if (unit.ends_with("b")) unit.pop_back();
  if (unit.size() == 2 && unit.back() == 'i') unit.pop_back();
  if (unit.empty()) return 1;
  const size_t power = std::string_view("kmgtp").find(unit);
  return unit.size() != 1 || power == std::string_view::npos
             ? 0
             : std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
}

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0)
    return std::nullopt;
  const auto [unit, fault] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (fault != std::errc()) return std::nullopt;
  const double factor = bytes_of_unit({unit, end});
  if (factor == 0 || number * factor >= 0x1p63) return std::nullopt;
  return static_cast<int64_t>(number * factor);
}

CLI::Validator byte_size() {
  const auto replace = [](std::string& text) -> std::string {
    const auto bytes = parse_bytes(text);
    if (!bytes) return format("\"{}\" is no size; write bytes as 65536, 500M or 1.5G", text);
    text = std::to_string(*bytes);
    return {};
  };
  return {replace, ""};
}

CLI::Validator number_within(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [next, fault] = std::from_chars(text.data(), end, value);
    if (fault == std::errc() && next == end && value >= least && value <= most) return {};
    return format("\"{}\" is no number from {} to {}", text, least, most);
  };
  return {check, ""};
}

CLI::Validator parsed_by(const std::function<void(const std::string&)>& parse) {
  const auto check = [parse](const std::string& text) -> std::string {
    try {
      parse(text);
      return {};
    } catch (const Error& error) {
      return error.message();
    }
  };
  return {check, ""};
}

bool can_hold_file(const std::filesystem::path& file) {
  std::error_code absent;
  return std::filesystem::is_directory(file.has_parent_path() ? file.parent_path() : ".", absent);
}

void make_folder_for(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(std::filesystem::is_directory(folder), folder,
          format("this is no folder and cannot become one: {}", failed.message()));
}

void add_seed_flag(CLI::App& command, uint64_t& seed, const std::string& help) {
  command.add_option("--seed", seed, help)->check(whole_number<uint64_t>())->capture_default_str();
}

void refuse_empty_values(CLI::App& app) {
  const auto refuse = [](const std::string& text) {
    return text.empty() ? std::string("its value is empty") : std::string();
  };
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options())
      if (option->get_expected_min() > 0) option->check(refuse, "");
    refuse_empty_values(*command);
  }
}

}  // namespace kerf::apps
