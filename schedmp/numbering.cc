#include "schedmp/numbering.h"

#include "runtime/error.h"
#include "runtime/json.h"
#include "schedmp/safetensors.h"

namespace kerf::schedmp {

namespace {

Json json_of_name(const std::string& name) {
  if (parse_json(json_text(Json(name)), kNumberingKey) == Json(name)) return name;
  Json bytes = Json::array();
  for (const char byte : name) bytes.push_back(static_cast<uint8_t>(byte));
  return bytes;
}

std::string name_of_json(const Json& json, const std::string& where) {
  if (json.is_string()) return json.get<std::string>();
  std::string name;
  const auto is_byte = [](const Json& each) {
    return each.is_number_integer() && each.get<int64_t>() >= 0 && each.get<int64_t>() <= 0xff;
  };
  if (!json.is_array()) throw Error(ErrorCode::kUsage, "its numbering names no text", where);
  for (const Json& byte : json) {
    if (!is_byte(byte)) throw Error(ErrorCode::kUsage, "its numbering names no bytes", where);
    name += static_cast<char>(byte.get<int64_t>());
  }
  return name;
}

}  // namespace

std::string write_numbering(const Numbering& numbering) {
  Json names = Json::array();
  for (const std::string& name : numbering.names) names.push_back(json_of_name(name));
  return json_text(Json{{"what", numbering.what}, {"names", std::move(names)}});
}

Numbering read_numbering(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where);
  if (!json.is_object() || !json.contains("what") || !json["what"].is_string() ||
      !json.contains("names") || !json["names"].is_array())
    throw Error(ErrorCode::kUsage, "its numbering of classes or words is damaged", where);
  Numbering numbering{json["what"].get<std::string>(), {}};
  for (const Json& name : json["names"]) numbering.names.push_back(name_of_json(name, where));
  return numbering;
}

std::optional<Numbering> numbering_of_weights(const std::filesystem::path& file) {
  if (file.empty()) return std::nullopt;
  const SafetensorsReader reader(file);
  const auto found = reader.metadata().find(kNumberingKey);
  if (found == reader.metadata().end()) return std::nullopt;
  return read_numbering(found->second, reader.origin());
}

}  // namespace kerf::schedmp
