// Text formatting: the one home of libfmt (GCC 12 has no std::format).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>

namespace kerf {

using fmt::format;

// What KERF_CHECK's trailing arguments become: nothing, or a formatted message.
inline std::string check_message() { return {}; }
template <class... Args>
std::string check_message(fmt::format_string<Args...> text, Args&&... args) {
  return fmt::format(text, std::forward<Args>(args)...);
}

// 1536 -> "1.5 KiB". For people; machine-readable output keeps plain numbers.
std::string human_bytes(double bytes);
// 1234567 -> "1.23 MFLOP".
std::string human_flops(double flops);
// 0.0123 -> "12.3 ms".
std::string human_seconds(double seconds);
// 1234567 -> "1,234,567".
std::string human_count(long long count);
// (1, "slot") -> "1 slot", (8, "micro-batch") -> "8 micro-batches".
std::string plural(long long count, std::string_view noun);

}  // namespace kerf
