// profile.json: how long a model's operators were measured to take, for --profile.
//
//   {"kerf_profile": 1, "model": "lenet5", "fingerprint": ..., "device": "cpu", "rows": 16,
//    "profile": {"others": [...], "operators": {...}}, "seconds": {"conv1": {...}}}
//
// "profile" is what plans are made by (partitioner/profile.h), "seconds" for people: of a step;
// "fingerprint" is of the operators without the loss.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "apps/report/operator_times.h"
#include "partitioner/model.h"
#include "runtime/json.h"

namespace kerf::apps {

inline constexpr const char* kProfileFile = "profile.json";  // of a run's folder

Json profile_file(const partitioner::Model& model, const partitioner::Plan& plan,
                  const std::string& device, std::span<const OperatorTimes> times);

// For a model before or after its rewrites. Throws Error{kUsage} that names the origin, for another
// model's, too.
partitioner::Profile read_profile_text(const std::string& text, const std::string& origin,
                                       const partitioner::Model& model);
// That of a file, or of a run's folder.
partitioner::Profile read_profile_file(const std::string& file_or_folder,
                                       const partitioner::Model& model);

}  // namespace kerf::apps
