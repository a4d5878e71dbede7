#include "partitioner/plan_members.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kerf::partitioner {

void refuse_member(const std::string& where, std::string message) {
  throw Error(ErrorCode::kUsage, std::move(message), where);
}

void check_members(const Json& json, std::initializer_list<std::string_view> known,
                   const std::string& where) {
  if (!json.is_object()) refuse_member(where, "must be an object");
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      refuse_member(where, format("there is no member \"{}\" here; there may be: {}", key,
                                  fmt::join(known, ", ")));
}

int json_small(const Json& json, const std::string& key, int least, const std::string& where) {
  const int64_t value = json_int(json, key, where);
  if (value < least || value > std::numeric_limits<int>::max())
    refuse_member(
        where, format("\"{}\" is {}, but must be at least {} and fit 32 bits", key, value, least));
  return static_cast<int>(value);
}

bool json_bool(const Json& json, const std::string& key, const std::string& where) {
  const Json& value = json_at(json, key, where);
  if (!value.is_boolean()) refuse_member(where, format("\"{}\" must be true or false", key));
  return value.get<bool>();
}

double json_finite(const Json& json, const std::string& key, const std::string& where) {
  const double value = json_number(json, key, where);
  if (!std::isfinite(value) || value < 0)
    refuse_member(where, format("\"{}\" must not be negative", key));
  return value;
}

std::vector<int> json_numbers(const Json& array, const std::string& where) {
  std::vector<int> result;
  for (const Json& one : array) {
    if (!one.is_number_integer()) refuse_member(where, "must be an array of integers");
    const auto value = one.get<int64_t>();
    if (value < 0 || value > std::numeric_limits<int>::max())
      refuse_member(where, format("{} is no number of a part or worker", value));
    result.push_back(static_cast<int>(value));
  }
  return result;
}

}  // namespace kerf::partitioner
