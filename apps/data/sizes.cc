#include "apps/data/sizes.h"

#include <charconv>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostValues = int64_t{1} << 29;  // 2 GiB of float32

int64_t parse_size(const char*& at, const char* end, const std::string& sizes, const char* form,
                   const char* example) {
  int64_t value = 0;
  const auto [next, fault] = std::from_chars(at, end, value);
  if (fault == std::errc::result_out_of_range || value > kMostValues)
    throw Error(
        ErrorCode::kUsage,
        format("\"{}\": a size is at most {}, and so is the number of values", sizes, kMostValues),
        "--data");
  if (fault != std::errc() || value < 1 || (next != end && *next != 'x'))
    throw Error(ErrorCode::kUsage, format("\"{}\": expected {}, as in {}", sizes, form, example),
                "--data");
  at = next == end ? next : next + 1;
  return value;
}

}  // namespace

Sizes parse_three_sizes(const std::string& sizes, const char* form, const char* example) {
  const char* at = sizes.data();
  const char* const end = at + sizes.size();
  Sizes three{};
  for (int64_t& size : three) size = parse_size(at, end, sizes, form, example);
  if (at != end || sizes.back() == 'x' || three[0] > kMostValues / three[1] ||
      three[2] > kMostValues / three[1])
    throw Error(ErrorCode::kUsage,
                format("\"{}\": expected three sizes and at most {} values", sizes, kMostValues),
                "--data");
  return three;
}

}  // namespace kerf::apps
