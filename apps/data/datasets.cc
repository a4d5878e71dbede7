#include "apps/data/datasets.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "apps/data/array_rows.h"
#include "apps/data/folders.h"
#include "apps/data/idx_folder.h"
#include "apps/data/image_folder.h"
#include "apps/data/synthetic.h"
#include "apps/data/text_rows.h"
#include "apps/data/tokens.h"
#include "partitioner/losses.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

using partitioner::Model;
using Rows = std::shared_ptr<const schedmp::Dataset>;

constexpr int64_t kBytesOfText = 256;

// What a row of the first value of this role is; empty where the model has none.
std::optional<ops::Shape> shape_of_first(const Model& model, partitioner::Role role) {
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == role) return model.value(id).spec.shape;
  return std::nullopt;
}

// Elements per row of the model's input; 0 where it has none.
int64_t input_elements(const Model& model) {
  const auto shape = shape_of_first(model, partitioner::Role::kInput);
  return shape ? shape->elements_per_sample() : 0;
}

bool reads_tokens(const Model& model) {
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == partitioner::Role::kInput)
      return model.value(id).spec.dtype == ops::DType::kInt64;
  return false;
}

// Channels, height and width of what the model looks at.
std::string picture_sizes(const Model& model, const std::string& name) {
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
int64_t vocabulary_of(const Model& model) {
  const int64_t read = schedmp::least_picked_from(model);
  const int64_t answered = schedmp::label_classes(model);
  return read > 0 ? std::min(read, answered) : answered;
}

// Classes, or the numbers of a row's target.
int64_t answers_of(const Model& model) {
  if (!partitioner::has_targets(model)) return vocabulary_of(model);
  return shape_of_first(model, partitioner::Role::kLabel)->elements_per_sample();
}

// Tokens of a row.
int64_t text_length(const Model& model, int64_t vocabulary, const std::string& name) {
  const auto shape = shape_of_first(model, partitioner::Role::kLabel);
  if (!shape || shape->elements_per_sample() < 2 || vocabulary < 2)
    throw Error(ErrorCode::kUsage,
                format("it is text, but {} does not answer token by token; choose a language model",
                       model.name()),
                name);
  return shape->elements_per_sample();
}

// What a kind has between its name and the path, of that many sizes: "3x224x224:"; empty where a
// person wrote none.
std::string sizes_before(const std::string& what, int64_t count) {
  const size_t end = what.find_first_not_of("0123456789x");
  if (end == 0 || end == std::string::npos || what[end] != ':' ||
      std::count(what.begin(), what.begin() + static_cast<ptrdiff_t>(end), 'x') != count - 1)
    return "";
  return what.substr(0, end + 1);
}

// Without the quotes of Markdown.
std::string plain(std::string_view form) {
  std::string text(form);
  std::erase(text, '`');
  return text;
}

// Workers that were started elsewhere would look for files there.
std::string absolute(const DataKind& kind, const std::string& path) {
  if (path.empty())
    throw Error(ErrorCode::kUsage,
                format("it names no {}: write it as in {}",
                       kind.form.find("FOLDER") == std::string_view::npos ? "file" : "folder",
                       plain(kind.form)),
                "--data");
  return std::filesystem::absolute(path).string();
}

std::string complete_path(const DataKind& kind, const std::string& what, const Model& /*model*/,
                          int64_t /*batch*/) {
  return format("{}:{}", kind.name, absolute(kind, what));
}

std::string complete_pictures(const DataKind& kind, const std::string& what, const Model& model,
                              int64_t /*batch*/) {
  const std::string sizes = sizes_before(what, 3);
  const std::string path = absolute(kind, what.substr(sizes.size()));
  return format(
      "{}:{}{}", kind.name,
      sizes.empty() ? picture_sizes(model, format("{}:{}", kind.name, what)) + ":" : sizes, path);
}

std::string complete_bytes(const DataKind& kind, const std::string& what, const Model& model,
                           int64_t /*batch*/) {
  std::string sizes = sizes_before(what, 1);
  const std::string path = absolute(kind, what.substr(sizes.size()));
  if (sizes.empty()) {
    const std::string name = format("{}:{}", kind.name, what);
    const int64_t vocabulary = vocabulary_of(model);
    sizes = format("{}:", text_length(model, vocabulary, name));
    if (vocabulary < kBytesOfText)
      throw Error(
          ErrorCode::kUsage,
          format("it is bytes, of which there are {}, but {} reads or answers {}: give it such "
                 "a vocabulary (--sizes; `kerf models` says what they mean), or take {}",
                 kBytesOfText, model.name(), vocabulary, "words:" + what),
          name);
  }
  return format("{}:{}{}", kind.name, sizes, path);
}

std::string complete_words(const DataKind& kind, const std::string& what, const Model& model,
                           int64_t /*batch*/) {
  std::string sizes = sizes_before(what, 2);
  const std::string path = absolute(kind, what.substr(sizes.size()));
  const int64_t vocabulary = vocabulary_of(model);
  if (sizes.empty())
    sizes = format("{}x{}:", text_length(model, vocabulary, format("{}:{}", kind.name, what)),
                   vocabulary);
  return format("{}:{}{}", kind.name, sizes, path);
}

int64_t made_up_rows_for(const Model& model, int64_t batch) {
  const int64_t elements = std::max<int64_t>(input_elements(model), 1);
  return std::clamp(kSyntheticValues / elements, batch, std::max(kSyntheticRows, batch));
}

// Of the sizes of a model that reads "source" and "target".
std::string complete_pairs(const DataKind& kind, const std::string& what, const Model& model,
                           int64_t batch) {
  if (!what.empty()) return format("{}:{}", kind.name, what);
  const auto tokens = [&](const char* input) -> int64_t {
    const partitioner::ValueId id = model.find_value(input);
    if (id < 0 || model.value(id).role != partitioner::Role::kInput)
      throw Error(
          ErrorCode::kUsage,
          format("it is pairs of sequences, but {} has no input \"{}\"; choose a model that "
                 "reads source and target, as seq2seq does",
                 model.name(), input),
          std::string(kind.name));
    return model.value(id).spec.shape.elements_per_sample();
  };
  const int64_t source = tokens("source");
  const int64_t target = tokens("target");
  return format("{}:{}x{}x{}x{}", kind.name, made_up_rows_for(model, batch), source, target,
                vocabulary_of(model));
}

std::string complete_made_up(const DataKind& kind, const std::string& what, const Model& model,
                             int64_t batch) {
  if (!what.empty()) return format("{}:{}", kind.name, what);
  return format("{}:{}x{}x{}", kind.name, made_up_rows_for(model, batch), input_elements(model),
                answers_of(model));
}

// Of a model that reads tokens, these.
std::string complete_synthetic(const DataKind& kind, const std::string& what, const Model& model,
                               int64_t batch) {
  if (!what.empty() || !reads_tokens(model)) return complete_made_up(kind, what, model, batch);
  return complete_dataset_name(model.find_value("source") >= 0 ? "pairs" : "tokens", model, batch);
}

std::string complete_fashion_mnist(const DataKind& kind, const std::string& what,
                                   const Model& model, int64_t batch) {
  return what.empty() ? std::string(kind.name) : complete_path(kind, what, model, batch);
}

Rows open_fashion_mnist(const std::string& what, const Opening& how) {
  const std::string folder = what.empty() ? kFashionMnistFolder : what;
  if (const std::string why = why_no_folder(folder); !why.empty())
    throw Error(ErrorCode::kUsage,
                format("{}; apt-get install dataset-fashion-mnist brings the data, or --data "
                       "fashion-mnist:FOLDER names where it is",
                       why),
                folder);
  return std::make_shared<IdxFolder>(folder, how.split, kFashionMnist, how.request.working);
}

Rows open_idx_folder(const std::string& what, const Opening& how) {
  return std::make_shared<IdxFolder>(what, how.split, IdxKind{}, how.request.working);
}

Rows open_pictures(const std::string& what, const Opening& how) {
  return std::make_shared<ImageFolder>(what, how.split, how.request);
}

Rows open_archive(const std::string& what, const Opening& how) {
  return std::make_shared<ArrayRows>(arrays_of_archive(what, how.request.working), how.split,
                                     how.request.model);
}

Rows open_folder_of_arrays(const std::string& what, const Opening& how) {
  return std::make_shared<ArrayRows>(arrays_of_folder(what, how.request.working), how.split,
                                     how.request.model);
}

Rows open_bytes(const std::string& what, const Opening& how) {
  return open_text(TokensOf::kBytes, what, how.split, how.request);
}

Rows open_words(const std::string& what, const Opening& how) {
  return open_text(TokensOf::kWords, what, how.split, how.request, how.words);
}

template <class MadeUp>
Rows make_up(const std::string& what, const Opening& how) {
  return std::make_shared<MadeUp>(what, how.split);
}

constexpr std::string_view kOwnTests = "rows of their own, an eighth as many";
constexpr std::string_view kLastRows = "the last tenth of the rows";
constexpr std::string_view kNever = "not at all";
constexpr std::string_view kTestArrays =
    "`NAME_test` or `NAME_val`; else the last tenth of the rows";

// What a person reads of a kind is here alone; the page of the manual has the same lines.
constexpr std::array<DataKind, 10> kDataKinds{{
    {"idx", "`idx:FOLDER`",
     "an image of `train-images-idx3-ubyte[.gz]`, its label of `train-labels-idx1-ubyte[.gz]`",
     "(x / 255 - 0.5) / 0.5", "`t10k-images-...`, `t10k-labels-...`", false, open_idx_folder,
     complete_path},
    {"fashion-mnist", "`fashion-mnist[:FOLDER]`", "likewise", "(x / 255 - 0.2860) / 0.3530",
     "likewise", true, open_fashion_mnist, complete_fashion_mnist},
    {"images", "`images:FOLDER`", "a PNG or JPEG file; the name of its folder is its class",
     "as PyTorch's models have it", "`test` or `val` beside `train`; else every tenth of a class",
     false, open_pictures, complete_pictures},
    {"npz", "`FILE.npz`, `npz:FILE`", "an index of the first axis of every array", kNever,
     kTestArrays, false, open_archive, complete_path},
    {"npy", "`npy:FOLDER`", "likewise, of its `.npy` files", kNever, kTestArrays, false,
     open_folder_of_arrays, complete_path},
    {"text", "`text:FILE`",
     "LENGTH bytes one behind the other; the label of each is the byte that follows", kNever,
     kLastRows, false, open_bytes, complete_bytes},
    {"words", "`words:FILE`", "LENGTH words, likewise, by number", kNever, kLastRows, false,
     open_words, complete_words},
    {"synthetic", "`synthetic[:ROWSxFEATURESxCLASSES]`",
     "noise around a pattern of its class, of the model's sizes; of a model that reads tokens, "
     "`tokens` or `pairs`",
     kNever, kOwnTests, true, make_up<Synthetic>, complete_synthetic},
    {"tokens", "`tokens[:ROWSxLENGTHxVOCABULARY]`",
     "a sequence that counts by 1, 2 or 3; the label of each token is the one that follows", kNever,
     kOwnTests, true, make_up<Tokens>, complete_made_up},
    {"pairs", "`pairs[:ROWSxSOURCExTARGETxVOCABULARY]`",
     "such a `source`, and the `target` that goes on with it", kNever, kOwnTests, true,
     make_up<TokenPairs>, complete_pairs},
}};

// The kind of this name, and what stands behind its colon. Null where there is none, or it lacks
// what it is of.
const DataKind* kind_of(const std::string& name, std::string& what) {
  const size_t colon = name.find(':');
  const std::string_view kind = std::string_view(name).substr(0, colon);
  what = colon == std::string::npos ? "" : name.substr(colon + 1);
  const auto* found = std::ranges::find(kDataKinds, kind, &DataKind::name);
  if (found == kDataKinds.end() || (what.empty() && !found->takes_nothing)) return nullptr;
  return found;
}

}  // namespace

std::span<const DataKind> data_kinds() { return kDataKinds; }

std::shared_ptr<const schedmp::Dataset> make_dataset(const std::string& name, schedmp::Split split,
                                                     const schedmp::DataRequest& request,
                                                     OpenWords* open) {
  std::string what;
  if (const DataKind* kind = kind_of(name, what); kind != nullptr)
    return kind->open(what, {split, request, open});
  throw Error(ErrorCode::kUsage,
              format("there is no data set \"{}\"; there are {}", name, dataset_forms()), "--data");
}

std::string dataset_forms() {
  std::string forms;
  for (const DataKind& kind : kDataKinds)
    forms += plain(forms.empty() ? std::string(kind.form) : format(", {}", kind.form));
  return forms;
}

std::string complete_dataset_name(const std::string& name, const Model& model, int64_t batch) {
  if (name.ends_with(".npz") && name.find(':') == std::string::npos)
    return complete_dataset_name("npz:" + name, model, batch);
  std::string what;
  const DataKind* kind = kind_of(name, what);
  return kind == nullptr ? name : kind->complete(*kind, what, model, batch);
}

}  // namespace kerf::apps
