// A profile: how long operators were measured to take, against what their cost (cost.h) says.
//
// A factor on predicted seconds holds for any share of an operator and any number of rows, near
// those that were measured. Plain values; pure functions.
#pragma once

#include <map>
#include <string>

#include "runtime/json.h"

namespace kerf::partitioner {

// Of predicted seconds; above 0.
struct MeasuredFactors {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  bool operator==(const MeasuredFactors&) const = default;
};

struct Profile {
  std::map<std::string, MeasuredFactors> operators = {};  // by name
  MeasuredFactors others = {};  // of what has another name, as a rewrite's nodes have

  bool empty() const { return operators.empty() && others == MeasuredFactors{}; }
  const MeasuredFactors& of(const std::string& name) const {
    const auto found = operators.find(name);
    return found == operators.end() ? others : found->second;
  }
  bool operator==(const Profile&) const = default;
};

//   {"others": [1.4, 1.2, 1.3], "operators": {"conv1": [1.5, 1, 1.1]}}
//
// Of forward, input gradient, weight gradient. Throws Error{kUsage} that names `where` and the
// operator, also for a factor that is not within 1e-9 and 1e9.
Json profile_json(const Profile& profile);
Profile read_profile(const Json& json, const std::string& where);

}  // namespace kerf::partitioner
