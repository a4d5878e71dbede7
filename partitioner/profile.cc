#include "partitioner/profile.h"

#include <array>

#include "partitioner/plan_members.h"
#include "runtime/format.h"

namespace kerf::partitioner {

namespace {

constexpr double kMostFactor = 1e9;

Json factors_json(const MeasuredFactors& factors) {
  return {factors.forward, factors.input_gradient, factors.weight_gradient};
}

MeasuredFactors read_factors(const Json& json, const std::string& where) {
  if (!json.is_array() || json.size() != 3)
    refuse_member(where, "wants [forward, input gradient, weight gradient], three numbers");
  std::array<double, 3> factors{};
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!json[i].is_number()) refuse_member(where, format("{} is no number", json_text(json[i])));
    factors[i] = json[i].get<double>();
    if (!(factors[i] >= 1 / kMostFactor && factors[i] <= kMostFactor))
      refuse_member(where, format("{} is not within {} and {}", json_text(json[i]), 1 / kMostFactor,
                                  kMostFactor));
  }
  return {factors[0], factors[1], factors[2]};
}

}  // namespace

Json profile_json(const Profile& profile) {
  Json operators = Json::object();
  for (const auto& [name, factors] : profile.operators) operators[name] = factors_json(factors);
  return {{"others", factors_json(profile.others)}, {"operators", std::move(operators)}};
}

Profile read_profile(const Json& json, const std::string& where) {
  check_members(json, {"others", "operators"}, where);
  Profile profile;
  if (json.contains("others")) profile.others = read_factors(json["others"], where + ".others");
  const Json& operators = json_at(json, "operators", where);
  const std::string at = where + ".operators";
  if (!operators.is_object()) refuse_member(at, "wants an object, an entry for each operator");
  for (const auto& [name, factors] : operators.items())
    profile.operators.emplace(name, read_factors(factors, format("{}.{}", at, name)));
  return profile;
}

}  // namespace kerf::partitioner
