#include "apps/data/exact_json.h"

#include "runtime/error.h"

namespace kerf::apps {

std::string exact_json(const Json& json, const std::string& where) {
  std::string text = json_text(json);
  if (parse_json(text, where) != json)
    throw Error(
        ErrorCode::kUsage,
        format("{}: there is something in it that is no UTF-8, which no worker can be told; "
               "name it otherwise",
               text),
        where);
  return text;
}

}  // namespace kerf::apps
