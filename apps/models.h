// Models by a text that travels to workers: "lenet5", "mlp 784-512-10", "resnet18 width=0.125".
#pragma once

#include <string>

#include "partitioner/model.h"

namespace kerf::apps {

// Its images lie channels last (partitioner/channels_last.h). Throws Error{kUsage} that lists the
// models or names the bad size.
partitioner::Model make_model(const std::string& source);

}  // namespace kerf::apps
