// JSON that says something to another process, which must get it back as it is. Pure functions.
#pragma once

#include <string>

#include "runtime/json.h"

namespace kerf::apps {

// On one line. Throws Error{kUsage} at `where` for what JSON cannot say: a path that is no UTF-8.
std::string exact_json(const Json& json, const std::string& where);

}  // namespace kerf::apps
