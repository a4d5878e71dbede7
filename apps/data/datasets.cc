#include "apps/data/datasets.h"

#include <filesystem>

#include "apps/data/fashion_mnist.h"
#include "apps/data/synthetic.h"
#include "apps/data/tokens.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr const char* kFashionMnist = "fashion-mnist";
constexpr const char* kSynthetic = "synthetic";
constexpr const char* kTokens = "tokens";

struct Name {
  std::string kind;
  std::string rest;  // after the colon
};

Name split_name(const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return {name, {}};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

// Elements per row of the model's input; 0 where it has none.
int64_t input_elements(const partitioner::Model& model) {
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == partitioner::Role::kInput)
      return model.value(id).spec.shape.elements_per_sample();
  return 0;
}

}  // namespace

std::shared_ptr<const schedmp::Dataset> make_dataset(const std::string& name,
                                                     schedmp::Split split) {
  const auto [kind, rest] = split_name(name);
  if (kind == kFashionMnist)
    return std::make_shared<FashionMnist>(rest.empty() ? FashionMnist::kFolder : rest, split);
  if (kind == kSynthetic) return std::make_shared<Synthetic>(rest, split);
  if (kind == kTokens) return std::make_shared<Tokens>(rest, split);
  throw Error(ErrorCode::kUsage,
              format("there is no data set \"{}\"; there are {}[:FOLDER], "
                     "{}[:ROWSxFEATURESxCLASSES] and {}[:ROWSxLENGTHxVOCABULARY]",
                     name, kFashionMnist, kSynthetic, kTokens),
              "--data");
}

std::string complete_dataset_name(const std::string& name, const partitioner::Model& model,
                                  int64_t rows) {
  const auto [kind, rest] = split_name(name);
  // Workers that were started elsewhere would look for it there.
  if (kind == kFashionMnist && !rest.empty())
    return format("{}:{}", kind, std::filesystem::absolute(rest).string());
  if (name != kSynthetic && name != kTokens) return name;
  return format("{}:{}x{}x{}", name, rows, input_elements(model), schedmp::label_classes(model));
}

void check_dataset(const schedmp::Dataset& data, const std::string& name,
                   const partitioner::Model& model) {
  schedmp::check_fits(data, name, model);
  if (const int64_t scores = schedmp::label_classes(model); data.classes() != scores)
    throw Error(
        ErrorCode::kUsage,
        format("it has {} classes, but {} gives {} scores", data.classes(), model.name(), scores),
        name);
}

}  // namespace kerf::apps
