// JSON text: the one home of nlohmann-json.
//
// parse_json is for text from outside: strict JSON, depth and size limited, duplicate keys refused;
// an error names file, line and column. Keys keep their order, so text is reproducible.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kerf {

using Json = nlohmann::ordered_json;

// Throws Error{kUsage, ..., where "origin:line:column"}.
Json parse_json(std::string_view text, const std::string& origin, size_t max_depth = 64);

// On one line, or indented; what is not UTF-8 (a path may be anything) becomes U+FFFD.
std::string json_text(const Json& json, int indent = -1);

// Field access with errors that name the path ("plan.json: stages[2].nodes is missing").
const Json& json_at(const Json& object, const std::string& key, const std::string& where);
int64_t json_int(const Json& object, const std::string& key, const std::string& where);
double json_number(const Json& object, const std::string& key, const std::string& where);
std::string json_string(const Json& object, const std::string& key, const std::string& where);
const Json& json_array(const Json& object, const std::string& key, const std::string& where);

}  // namespace kerf
