#include "apps/data/sizes.h"

#include <charconv>

#include "runtime/error.h"

namespace kerf::apps {

std::vector<int64_t> parse_sizes(const std::string& sizes, size_t count, size_t held,
                                 const char* form, const char* example) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, format("\"{}\": {}", sizes, why), "--data");
  };
  const std::string expected = format("expected {}, as in {}", form, example);
  const std::string too_many =
      format("a size is at most {}, and so is the number of values", kMostValues);
  int64_t values = 1;
  std::vector<int64_t> parsed;
  const char* at = sizes.data();
  const char* const end = at + sizes.size();
  while (parsed.size() < count) {
    int64_t size = 0;
    const auto [next, fault] = std::from_chars(at, end, size);
    if (fault == std::errc::result_out_of_range || size > kMostValues) refuse(too_many);
    const bool last = parsed.size() + 1 == count;
    if (fault != std::errc() || size < 1 || (last ? next != end : next == end || *next != 'x'))
      refuse(expected);
    if (parsed.size() < held && size > kMostValues / values) refuse(too_many);
    if (parsed.size() < held) values *= size;
    parsed.push_back(size);
    at = last ? next : next + 1;
  }
  return parsed;
}

}  // namespace kerf::apps
