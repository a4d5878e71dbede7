#include "apps/main/flag_values.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

// Of a size: no sum of such with what a worker takes overflows.
constexpr const char* kMostSize = "4096P";
constexpr double kMostBytesOfSize = 0x1p62;

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

CLI::Validator byte_size() {
  const auto replace = [](std::string& text) -> std::string {
    const std::string no_size =
        format("\"{}\" is no size; write bytes as 65536, 500M or 1.5G", text);
    double number = 0;
    const char* const end = text.data() + text.size();
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0) return no_size;
    const auto [unit, fault] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    const double factor = bytes_of_unit({unit, end});
    if (factor == 0) return no_size;
    if (fault != std::errc() || number * factor > kMostBytesOfSize)
      return format("\"{}\" is more than the most that there may be, {}", text, kMostSize);
    if (factor == 1 && number != std::floor(number))
      return format("\"{}\" is no whole number of bytes", text);
    text = std::to_string(static_cast<int64_t>(number * factor));
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
