#include "runtime/format.h"

#include <array>
#include <cmath>

namespace kerf {

namespace {

// Three significant digits, no trailing zeros: 1.5, 12.3, 123.
std::string three_digits(double value) {
  const double size = std::fabs(value);
  std::string text = format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string human_bytes(double bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B",   "KiB", "MiB", "GiB",
                                                        "TiB", "PiB", "EiB"};
  if (!std::isfinite(bytes)) return format("{} B", bytes);
  size_t unit = 0;
  while (std::fabs(bytes) >= 1023.5 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return format("{} {}", unit == 0 ? format("{:.0f}", bytes) : three_digits(bytes), kUnits[unit]);
}

std::string human_flops(double flops) {
  static constexpr std::array<const char*, 6> kUnits = {"", "k", "M", "G", "T", "P"};
  if (!std::isfinite(flops)) return format("{} FLOP", flops);
  size_t unit = 0;
  while (std::fabs(flops) >= 999.5 && unit + 1 < kUnits.size()) {
    flops /= 1000;
    ++unit;
  }
  return format("{} {}FLOP", three_digits(flops), kUnits[unit]);
}

std::string human_seconds(double seconds) {
  const double size = std::fabs(seconds);
  if (!std::isfinite(seconds)) return format("{} s", seconds);
  if (size == 0) return "0 s";
  if (size < 0.9995e-6) return format("{} ns", three_digits(seconds * 1e9));
  if (size < 0.9995e-3) return format("{} us", three_digits(seconds * 1e6));
  if (size < 0.9995) return format("{} ms", three_digits(seconds * 1e3));
  if (size < 99.95) return format("{} s", three_digits(seconds));
  const auto whole = static_cast<long long>(std::llround(size));
  const char* sign = seconds < 0 ? "-" : "";
  if (whole < 3600) return format("{}{} min {:02} s", sign, whole / 60, whole % 60);
  return format("{}{} h {:02} min", sign, human_count(whole / 3600), whole % 3600 / 60);
}

std::string human_count(long long count) {
  std::string digits = format("{}", count);
  const size_t first = digits.front() == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string plural(long long count, std::string_view noun) {
  const char* ending = count == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return format("{} {}{}", human_count(count), noun, ending);
}

}  // namespace kerf
