// Models by a text that travels to workers: "lenet5", "mlp", "mlp 784-512-10".
#pragma once

#include <string>

#include "partitioner/model.h"

namespace kerf::apps {

// Its images lie channels last (partitioner/channels_last.h). Throws Error{kUsage} that lists the
// models or names the bad size.
partitioner::Model make_model(const std::string& source);

// The text for a name and the sizes of --sizes (empty: none were given).
std::string model_source(const std::string& name, const std::string& sizes);

}  // namespace kerf::apps
