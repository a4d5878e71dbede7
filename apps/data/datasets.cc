#include "apps/data/datasets.h"

#include <algorithm>
#include <filesystem>

#include "apps/data/array_rows.h"
#include "apps/data/idx_folder.h"
#include "apps/data/image_folder.h"
#include "apps/data/synthetic.h"
#include "apps/data/text_rows.h"
#include "apps/data/tokens.h"
#include "partitioner/losses.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr const char* kSynthetic = "synthetic";
constexpr const char* kTokens = "tokens";
constexpr const char* kPairs = "pairs";
constexpr const char* kIdx = "idx";
constexpr const char* kImages = "images";
constexpr const char* kNpz = "npz";
constexpr const char* kNpy = "npy";
constexpr const char* kText = "text";
constexpr const char* kWords = "words";

constexpr int64_t kBytesOfText = 256;

struct Name {
  std::string kind;
  std::string rest;  // after the colon
};

Name split_name(const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return {name, {}};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

// What a row of the first value of this role is; empty where the model has none.
std::optional<ops::Shape> shape_of_first(const partitioner::Model& model, partitioner::Role role) {
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == role) return model.value(id).spec.shape;
  return std::nullopt;
}

// Elements per row of the model's input; 0 where it has none.
int64_t input_elements(const partitioner::Model& model) {
  const auto shape = shape_of_first(model, partitioner::Role::kInput);
  return shape ? shape->elements_per_sample() : 0;
}

bool reads_tokens(const partitioner::Model& model) {
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == partitioner::Role::kInput)
      return model.value(id).spec.dtype == ops::DType::kInt64;
  return false;
}

// Channels, height and width of what the model looks at.
std::string picture_sizes(const partitioner::Model& model, const std::string& name) {
  const auto shape = shape_of_first(model, partitioner::Role::kInput);
  if (!shape || shape->rank() != 4)
    throw Error(ErrorCode::kUsage,
                format("it has pictures, but {} reads {}; choose a model that reads [N, channels, "
                       "height, width]",
                       model.name(), shape ? to_string(*shape) : "nothing"),
                name);
  return format("{}x{}x{}", (*shape)[1], (*shape)[2], (*shape)[3]);
}

// Words that it may both read and answer.
int64_t vocabulary_of(const partitioner::Model& model) {
  const int64_t read = schedmp::least_picked_from(model);
  const int64_t answered = schedmp::label_classes(model);
  return read > 0 ? std::min(read, answered) : answered;
}

// Classes, or the numbers of a row's target.
int64_t answers_of(const partitioner::Model& model) {
  if (!partitioner::has_targets(model)) return vocabulary_of(model);
  return shape_of_first(model, partitioner::Role::kLabel)->elements_per_sample();
}

std::string text_sizes(const partitioner::Model& model, const std::string& kind,
                       const std::string& name) {
  const auto shape = shape_of_first(model, partitioner::Role::kLabel);
  const int64_t classes = vocabulary_of(model);
  if (!shape || shape->elements_per_sample() < 2 || classes < 2)
    throw Error(ErrorCode::kUsage,
                format("it is text, but {} does not answer token by token; choose a language model",
                       model.name()),
                name);
  if (kind == kText && classes < kBytesOfText)
    throw Error(ErrorCode::kUsage,
                format("it is bytes, of which there are {}, but {} reads or answers {}",
                       kBytesOfText, model.name(), classes),
                name);
  return format("{}x{}", shape->elements_per_sample(), classes);
}

// Of the sizes of a model that reads "source" and "target".
std::string pairs_name(const partitioner::Model& model, int64_t rows) {
  const auto tokens = [&](const char* input) -> int64_t {
    const partitioner::ValueId id = model.find_value(input);
    if (id < 0 || model.value(id).role != partitioner::Role::kInput)
      throw Error(
          ErrorCode::kUsage,
          format("it is pairs of sequences, but {} has no input \"{}\"; choose a model that "
                 "reads source and target, as seq2seq does",
                 model.name(), input),
          kPairs);
    return model.value(id).spec.shape.elements_per_sample();
  };
  const int64_t source = tokens("source");
  const int64_t target = tokens("target");
  return format("{}:{}x{}x{}x{}", kPairs, rows, source, target, vocabulary_of(model));
}

// Of "3x224x224:pictures", "3x224x224:"; empty where no sizes stand before the path.
std::string sizes_of(const std::string& rest) {
  const size_t end = rest.find_first_not_of("0123456789x");
  const bool sizes = end != 0 && end != std::string::npos && rest[end] == ':';
  return sizes ? rest.substr(0, end + 1) : "";
}

bool is_cut_to_the_model(const std::string& kind) {
  return kind == kImages || kind == kText || kind == kWords;
}

std::shared_ptr<const schedmp::Dataset> open_fashion_mnist(const std::string& folder,
                                                           schedmp::Split split,
                                                           const Working& working) {
  if (!std::filesystem::is_directory(folder))
    throw Error(
        ErrorCode::kUsage,
        "there is no such folder; apt-get install dataset-fashion-mnist brings the data, or "
        "--data fashion-mnist:FOLDER names where it is",
        folder);
  return std::make_shared<IdxFolder>(folder, split, kFashionMnist, working);
}

bool is_of_files(const std::string& kind) {
  return kind == kFashionMnist.name || kind == kIdx || kind == kNpz || kind == kNpy ||
         is_cut_to_the_model(kind);
}

}  // namespace

std::shared_ptr<const schedmp::Dataset> make_dataset(const std::string& name, schedmp::Split split,
                                                     const schedmp::DataRequest& request,
                                                     OpenWords* open) {
  const auto [kind, rest] = split_name(name);
  const Working& working = request.working;
  if (kind == kFashionMnist.name)
    return open_fashion_mnist(rest.empty() ? kFashionMnistFolder : rest, split, working);
  if (kind == kSynthetic) return std::make_shared<Synthetic>(rest, split);
  if (kind == kTokens) return std::make_shared<Tokens>(rest, split);
  if (kind == kPairs) return std::make_shared<TokenPairs>(rest, split);
  if (!rest.empty()) {
    if (kind == kIdx) return std::make_shared<IdxFolder>(rest, split, IdxKind{}, working);
    if (kind == kImages) return std::make_shared<ImageFolder>(rest, split, request);
    if (kind == kNpz)
      return std::make_shared<ArrayRows>(arrays_of_archive(rest, working), split, request.model);
    if (kind == kNpy)
      return std::make_shared<ArrayRows>(arrays_of_folder(rest, working), split, request.model);
    if (kind == kText) return open_text(TokensOf::kBytes, rest, split, request);
    if (kind == kWords) return open_text(TokensOf::kWords, rest, split, request, open);
  }
  throw Error(ErrorCode::kUsage,
              format("there is no data set \"{}\"; there are {}", name, dataset_forms()), "--data");
}

std::string dataset_forms() {
  return "fashion-mnist[:FOLDER], synthetic[:ROWSxFEATURESxCLASSES], "
         "tokens[:ROWSxLENGTHxVOCABULARY], pairs[:ROWSxSOURCExTARGETxVOCABULARY], idx:FOLDER, "
         "images:FOLDER, npz:FILE or FILE.npz, npy:FOLDER, "
         "text:FILE and words:FILE";
}

std::string complete_dataset_name(const std::string& name, const partitioner::Model& model,
                                  int64_t batch) {
  if (name.ends_with(".npz") && name.find(':') == std::string::npos)
    return complete_dataset_name(format("{}:{}", kNpz, name), model, batch);
  const auto [kind, rest] = split_name(name);
  if (is_of_files(kind) && !rest.empty()) {
    std::string sizes = is_cut_to_the_model(kind) ? sizes_of(rest) : "";
    // Workers that were started elsewhere would look for files there.
    const std::string path = std::filesystem::absolute(rest.substr(sizes.size())).string();
    if (sizes.empty() && is_cut_to_the_model(kind))
      sizes = (kind == kImages ? picture_sizes(model, name) : text_sizes(model, kind, name)) + ":";
    return format("{}:{}{}", kind, sizes, path);
  }
  if (name == kSynthetic && reads_tokens(model))
    return complete_dataset_name(model.find_value("source") >= 0 ? kPairs : kTokens, model, batch);
  if (name != kSynthetic && name != kTokens && name != kPairs) return name;
  const int64_t elements = input_elements(model);
  const int64_t rows = std::clamp(kSyntheticValues / std::max<int64_t>(elements, 1), batch,
                                  std::max(kSyntheticRows, batch));
  if (name == kPairs) return pairs_name(model, rows);
  return format("{}:{}x{}x{}", name, rows, elements, answers_of(model));
}

}  // namespace kerf::apps
