// A command's answer on the standard output: a text for people or JSON for programs, as --json
// says. Only what was asked for is made.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "runtime/json.h"

namespace kerf::apps {

void add_json_flag(CLI::App& command, bool& json);

void answer(bool json, const std::function<Json()>& for_programs,
            const std::function<std::string(bool colour)>& for_people);

}  // namespace kerf::apps
