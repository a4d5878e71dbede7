// A command's answer on the standard output: a text for people or JSON for programs, as --json
// says. Only what was asked for is made. What else a person should know goes to the standard error
// output.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "runtime/json.h"

namespace kerf::apps {

void add_json_flag(CLI::App& command, bool& json);

void answer(bool json, const std::function<Json()>& for_programs,
            const std::function<std::string(bool colour)>& for_people);

// The same of a run, with whether what its workers sent each other over tcp was encrypted.
void answer_of_run(bool json, bool data_encrypted, const std::function<Json()>& for_programs,
                   const std::function<std::string(bool colour)>& for_people);

// A line to the standard error output. What that does not take is lost, and nothing else is: a run
// goes on whose terminal is gone, or whose log's disk is full.
void tell_line(const std::string& line);
// "kerf: note: ..." a line, with the name of the executable.
void tell_notes(const std::vector<std::string>& notes);
// What is told of a text whose further lines would be too much.
std::string first_line(const std::string& text);

}  // namespace kerf::apps
