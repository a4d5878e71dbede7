#include "apps/data/datasets.h"

#include <filesystem>

#include "apps/data/fashion_mnist.h"
#include "apps/data/synthetic.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr const char* kFashionMnist = "fashion-mnist";
constexpr const char* kSynthetic = "synthetic";

struct Name {
  std::string kind;
  std::string rest;  // after the colon
};

Name split_name(const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return {name, {}};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

// Features and classes that the model's input and scores have; 0 where it has none.
struct Wanted {
  int64_t features = 0;
  int64_t classes = 0;
};

Wanted wanted_by(const partitioner::Model& model) {
  Wanted wanted;
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == partitioner::Role::kInput)
      wanted.features = model.value(id).spec.shape.elements_per_sample();
  if (model.loss() >= 0)
    wanted.classes =
        model.value(model.node(model.loss()).inputs[0]).spec.shape.elements_per_sample();
  return wanted;
}

}  // namespace

std::shared_ptr<const schedmp::Dataset> make_dataset(const std::string& name,
                                                     schedmp::Split split) {
  const auto [kind, rest] = split_name(name);
  if (kind == kFashionMnist)
    return std::make_shared<FashionMnist>(rest.empty() ? FashionMnist::kFolder : rest, split);
  if (kind == kSynthetic) return std::make_shared<Synthetic>(rest, split);
  throw Error(ErrorCode::kUsage,
              format("there is no data set \"{}\"; there are {}[:FOLDER] and "
                     "{}[:ROWSxFEATURESxCLASSES]",
                     name, kFashionMnist, kSynthetic),
              "--data");
}

std::string complete_dataset_name(const std::string& name, const partitioner::Model& model,
                                  int64_t rows) {
  const auto [kind, rest] = split_name(name);
  // Workers that were started elsewhere would look for it there.
  if (kind == kFashionMnist && !rest.empty())
    return format("{}:{}", kind, std::filesystem::absolute(rest).string());
  if (name != kSynthetic) return name;
  const Wanted wanted = wanted_by(model);
  return format("{}:{}x{}x{}", kSynthetic, rows, wanted.features, wanted.classes);
}

void check_dataset(const schedmp::Dataset& data, const std::string& name,
                   const partitioner::Model& model) {
  const Wanted wanted = wanted_by(model);
  if (data.features() != wanted.features)
    throw Error(ErrorCode::kUsage,
                format("its rows have {} features, but the input of {} has {}", data.features(),
                       model.name(), wanted.features),
                name);
  if (data.classes() != wanted.classes)
    throw Error(ErrorCode::kUsage,
                format("it has {} classes, but {} gives {} scores", data.classes(), model.name(),
                       wanted.classes),
                name);
}

}  // namespace kerf::apps
