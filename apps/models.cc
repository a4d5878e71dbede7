#include "apps/models.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "apps/data/exact_json.h"
#include "partitioner/channels_last.h"
#include "partitioner/onnx/import.h"
#include "partitioner/zoo.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

constexpr std::string_view kSuffix = ".onnx";

bool is_onnx_source(const std::string& source) { return source.starts_with('{'); }

std::vector<std::string> strings_of(const Json& source, const std::string& key) {
  std::vector<std::string> strings;
  if (!source.contains(key)) return strings;
  for (const Json& one : json_array(source, key, "model source")) {
    if (!one.is_string())
      throw Error(ErrorCode::kUsage, format("\"{}\" must be an array of texts", key),
                  "model source");
    strings.push_back(one.get<std::string>());
  }
  return strings;
}

int64_t json_integer(const Json& source, const std::string& key) {
  if (!source[key].is_number_integer())
    throw Error(ErrorCode::kUsage, format("\"{}\" must be an integer", key), "model source");
  return source[key].get<int64_t>();
}

bool json_flag(const Json& source, const std::string& key) {
  if (!source[key].is_boolean())
    throw Error(ErrorCode::kUsage, format("\"{}\" must be true or false", key), "model source");
  return source[key].get<bool>();
}

bool is_trained_norm(const Json& source) {
  const std::string text = json_string(source, "bn", "model source");
  if (text == "train" || text == "frozen") return text == "train";
  throw Error(ErrorCode::kUsage, "\"bn\" must be train or frozen", "model source");
}

OnnxSource read_source(const std::string& text) {
  const Json json = parse_json(text, "model source");
  OnnxSource source{json_string(json, "onnx", "model source")};
  source.train = strings_of(json, "train");
  source.freeze = strings_of(json, "freeze");
  if (json.contains("loss")) source.loss = json_string(json, "loss", "model source");
  if (json.contains("bn")) source.train_batch_norms = is_trained_norm(json);
  if (json.contains("head")) source.head = json_integer(json, "head");
  if (json.contains("answers")) source.answers = json_flag(json, "answers");
  if (!json.contains("dims")) return source;
  if (!json["dims"].is_object())
    throw Error(ErrorCode::kUsage, "\"dims\" must be an object", "model source");
  for (const auto& [name, extent] : json["dims"].items()) {
    if (!extent.is_number_integer())
      throw Error(ErrorCode::kUsage, format("dims: {} is no integer", name), "model source");
    source.dims[name] = extent.get<int64_t>();
  }
  return source;
}

// Names of weights are UTF-8, as all in an ONNX file is.
void check_patterns(const std::vector<std::string>& patterns, const char* flag) {
  for (const std::string& pattern : patterns) {
    const std::string text = json_text(Json(pattern));
    if (parse_json(text, flag) != Json(pattern))
      throw Error(ErrorCode::kUsage,
                  format("{} is no UTF-8, so it fits the name of none of its weights", text), flag);
  }
}

}  // namespace

MadeModel make_plain_model(const std::string& source) {
  if (!is_onnx_source(source)) return {partitioner::make_zoo_model_of(source), {}};
  const OnnxSource onnx = read_source(source);
  partitioner::onnx::Imported imported =
      partitioner::onnx::import_file(onnx.file, {.dims = onnx.dims,
                                                 .train = onnx.train,
                                                 .freeze = onnx.freeze,
                                                 .loss = onnx.loss,
                                                 .head = onnx.head,
                                                 .train_batch_norms = onnx.train_batch_norms,
                                                 .answers = onnx.answers});
  imported.model.check();
  return {std::move(imported.model), std::move(imported.notes), std::move(imported.constants),
          std::move(imported.folded)};
}

MadeModel make_model_with_notes(const std::string& source) {
  MadeModel made = make_plain_model(source);
  made.model = partitioner::channels_last(made.model);
  return made;
}

partitioner::Model make_model(const std::string& source) {
  return make_model_with_notes(source).model;
}

bool names_onnx_file(const std::string& model) {
  return model.size() >= kSuffix.size() &&
         std::equal(kSuffix.rbegin(), kSuffix.rend(), model.rbegin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

std::string model_source(const OnnxSource& onnx) {
  namespace fs = std::filesystem;
  std::error_code absent;
  // A link stays one: external data may lie beside it.
  const fs::path given = fs::absolute(onnx.file);
  const fs::path path = fs::canonical(given.parent_path(), absent) / given.filename();
  if (absent || !fs::exists(path))
    throw Error(ErrorCode::kUsage, "there is no such file", onnx.file);
  check_patterns(onnx.train, "--train");
  check_patterns(onnx.freeze, "--freeze");
  Json json{{"onnx", path.string()}};
  if (!onnx.dims.empty()) json["dims"] = onnx.dims;
  if (!onnx.train.empty()) json["train"] = onnx.train;
  if (!onnx.freeze.empty()) json["freeze"] = onnx.freeze;
  if (!onnx.loss.empty()) json["loss"] = onnx.loss;
  if (onnx.head > 0) json["head"] = onnx.head;
  if (onnx.train_batch_norms) json["bn"] = "train";
  if (onnx.answers) json["answers"] = true;
  return exact_json(json, onnx.file);
}

}  // namespace kerf::apps
