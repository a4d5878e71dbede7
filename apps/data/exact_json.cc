#include "apps/data/exact_json.h"

#include "runtime/error.h"

namespace kerf::apps {

std::string exact_json(const Json& json, const std::string& where) {
  std::string text = json_text(json);
  if (parse_json(text, where) != json)
    throw Error(ErrorCode::kUsage, format("{}: what shows as \uFFFD is no UTF-8; rename it", text),
                where);
  return text;
}

}  // namespace kerf::apps
