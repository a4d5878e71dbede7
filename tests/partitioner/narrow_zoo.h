// The built-in models as tests train them: narrow, and of the smallest images that a network makes
// something of.
#pragma once

#include <string>

#include "partitioner/zoo.h"

namespace kerf::partitioner {

inline int64_t smallest_image(const std::string& name) {
  if (name == "inception-v3") return 75;
  if (name == "bvlc-alexnet") return 67;
  if (name == "alexnet" || name == "inception-v1" || name == "squeezenet") return 64;
  return 32;
}

inline Model narrow(const ZooModel& row) {
  ZooOptions options{.width = 0.125};
  if (row.images) {
    options.image = smallest_image(std::string(row.name));
    options.classes = 20;
  }
  return make_zoo_model(std::string(row.name), options);
}

// How they are trained.
inline constexpr int kNarrowSteps = 3;
inline constexpr int64_t kNarrowRows = 9;
inline constexpr float kNarrowRate = 0.001F;

}  // namespace kerf::partitioner
