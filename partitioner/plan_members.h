// Reads members of a plan's JSON, each checked for presence, type and range. Throws Error{kUsage}
// at `where`, which names file and path: "plan.json: stages[2].parts". Pure functions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::partitioner {

[[noreturn]] void refuse_member(const std::string& where, std::string message);

// `json` is an object whose members all are among `known`.
void check_members(const Json& json, std::initializer_list<std::string_view> known,
                   const std::string& where);

int json_small(const Json& json, const std::string& key, int least, const std::string& where);
bool json_bool(const Json& json, const std::string& key, const std::string& where);
// Neither infinite nor negative.
double json_finite(const Json& json, const std::string& key, const std::string& where);
// Numbers of parts or workers, in an array that stands at `where`.
std::vector<int> json_numbers(const Json& array, const std::string& where);

// A name that `parse` knows; its refusal gets the place.
template <class T>
T parsed(T (*parse)(const std::string&), const std::string& name, const std::string& where) {
  try {
    return parse(name);
  } catch (const Error& error) {
    refuse_member(where, error.message());
  }
}

}  // namespace kerf::partitioner
