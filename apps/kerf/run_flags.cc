#include "apps/kerf/run_flags.h"

#include <filesystem>

#include "apps/data/datasets.h"
#include "apps/main/flag_values.h"

namespace kerf::apps {

void add_data_flag(CLI::App& command, std::string& data) {
  command
      .add_option("--data", data,
                  dataset_forms() + "; files of images and text are cut to what the model reads")
      ->capture_default_str();
}

void require_loss(const partitioner::Model& model) {
  if (model.loss() < 0)
    throw Error(ErrorCode::kUsage,
                "there is no loss to train with; an ONNX file gets one by --loss", model.name());
}

CLI::Option* add_weights_flag(CLI::App& command, std::string& weights, const std::string& help) {
  return command.add_option("--weights", weights, help)->type_name("FILE.safetensors");
}

std::string existing_weights(const std::string& weights) {
  if (weights.empty()) return {};
  require(std::filesystem::is_regular_file(weights), "--weights",
          format("there is no file {}", weights));
  return std::filesystem::absolute(weights).string();
}

bool has_contents(const partitioner::Value& value) {
  return value.contents != nullptr || value.literal != nullptr ||
         value.initializer.kind == ops::Initializer::Kind::kConstant;
}

void throw_no_weights(const partitioner::Model& model, const partitioner::Value& value) {
  throw Error(ErrorCode::kUsage,
              format("{} has no weights yet; give --weights, as kerf train wrote them", value.name),
              model.name());
}

}  // namespace kerf::apps
