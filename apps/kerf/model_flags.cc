#include "apps/kerf/model_flags.h"

#include <filesystem>
#include <utility>

#include "apps/data/exact_json.h"
#include "apps/main/flag_values.h"
#include "apps/models.h"
#include "partitioner/losses.h"
#include "partitioner/zoo.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostClasses = int64_t{1} << 24;

int64_t whole_extent(std::string text) {
  const std::string why = whole_number<int64_t>()(text);
  require(why.empty() && text != "0", "--dim", format("\"{}\" is no extent", text));
  return std::stoll(text);
}

void find_built_in(const std::string& name) {
  try {
    partitioner::find_zoo_model(name);
  } catch (const Error&) {
    if (std::error_code error; !std::filesystem::is_regular_file(name, error)) throw;
    throw Error(ErrorCode::kUsage,
                "it is no model (whose files end in .onnx); a graph of another tool is cut by kerf "
                "plan FILE --format placement, pipedream or costs",
                name);
  }
}

void refuse_where(bool given, const char* flag, const char* why) { require(!given, flag, why); }

}  // namespace

std::vector<std::string> ModelFlags::given_flags() const {
  std::vector<std::string> given;
  const auto add = [&](bool is_given, const char* flag) {
    if (is_given) given.emplace_back(flag);
  };
  add(!loss.empty(), "--loss");
  add(!sizes.empty(), "--sizes");
  add(width.has_value(), "--width");
  add(classes.has_value(), "--classes");
  add(image.has_value(), "--image-size");
  add(!dims.empty(), "--dim");
  add(!train.empty(), "--train");
  add(!freeze.empty(), "--freeze");
  add(head.has_value(), "--head");
  add(norms.has_value(), "--bn");
  return given;
}

std::string ModelFlags::source() const {
  if (!says_model() && !source_of_run.empty()) return source_of_run;
  const std::string name = model.value_or("lenet5");
  return names_onnx_file(name) ? onnx_source(name) : zoo_source(name);
}

std::string ModelFlags::zoo_source(const std::string& name) const {
  constexpr const char* kWhy = "it is for ONNX files only";
  refuse_where(!dims.empty(), "--dim", kWhy);
  refuse_where(!train.empty(), "--train", kWhy);
  refuse_where(!freeze.empty(), "--freeze", kWhy);
  refuse_where(head.has_value(), "--head", kWhy);
  refuse_where(norms.has_value(), "--bn", kWhy);
  find_built_in(name);  // before it is one word of a text
  partitioner::ZooOptions options{.width = width.value_or(1),
                                  .classes = classes,
                                  .image = image,
                                  .loss = loss == partitioner::kCrossEntropy ? "" : loss};
  if (!sizes.empty()) options.sizes = partitioner::parse_sizes(sizes);
  return partitioner::zoo_text(name, options);
}

std::string ModelFlags::onnx_source(const std::string& file) const {
  constexpr const char* kWhy = "an ONNX file has its sizes; leave the flag out";
  refuse_where(!sizes.empty(), "--sizes", kWhy);
  refuse_where(width.has_value(), "--width", kWhy);
  refuse_where(classes.has_value(), "--classes", "of an ONNX file it is --head that says it");
  refuse_where(image.has_value(), "--image-size", kWhy);
  OnnxSource source{.file = file, .train = train, .freeze = freeze, .loss = loss};
  for (const auto& [flag, patterns] : {std::pair("--train", &train), {"--freeze", &freeze}})
    for (const std::string& pattern : *patterns) exact_json(pattern, flag);
  source.head = head.value_or(0);
  source.train_batch_norms = norms == "train";
  source.answers = answers;
  for (const std::string& dim : dims) {
    const size_t equals = dim.find('=');
    require(equals != std::string::npos && equals > 0, "--dim", "write it as in T=128");
    source.dims[dim.substr(0, equals)] = whole_extent(dim.substr(equals + 1));
  }
  return model_source(source);
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  command.add_option("MODEL", flags.model,
                     format("{}, or an ONNX file: see `kerf models` (default lenet5, or a plan's)",
                            fmt::join(partitioner::zoo_names(), ", ")));
  add_size_flags(command, flags);
  command
      .add_option("--dim", flags.dims, "Of an ONNX file: the extent of an axis that it only names")
      ->allow_extra_args(false)
      ->type_name("NAME=N");
  command
      .add_option("--train", flags.train,
                  "Of an ONNX file: train these too (a pattern of names, as in 'head.*')")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  command
      .add_option("--loss", flags.loss,
                  "What the first output is trained to: cross-entropy of classes (as built-in "
                  "models are); or numbers, by mse, l1, huber or bce-with-logits")
      ->check(CLI::IsMember(std::vector<std::string>(partitioner::loss_names().begin(),
                                                     partitioner::loss_names().end())))
      ->type_name("NAME");
  command
      .add_option("--head", flags.head, "Of an ONNX file: a new last layer, for so many classes")
      ->check(whole_number<int64_t>(1, kMostClasses))
      ->type_name("CLASSES");
  command
      .add_option("--bn", flags.norms,
                  "Of an ONNX file: batch normalisations train, or stay as they are (default "
                  "frozen)")
      ->check(CLI::IsMember({"train", "frozen"}))
      ->type_name("train|frozen");
  command.add_option("--freeze", flags.freeze, "Of an ONNX file: do not train these")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
}

std::vector<CLI::Option*> add_size_flags(CLI::App& command, ModelFlags& flags) {
  return {
      command
          .add_option(
              "--sizes", flags.sizes,
              "Of mlp, convnet, lstm-lm, seq2seq, gpt and vit; `kerf models` says what they "
              "mean")
          ->type_name("784-512-512-10"),
      command
          .add_option("--width", flags.width,
                      "Of built-in models: this times their channels, features and hidden units "
                      "(default 1)")
          ->type_name("FACTOR"),
      command.add_option("--classes", flags.classes, "Of networks of images (default 1000)")
          ->check(whole_number<int64_t>())
          ->type_name("N"),
      command
          .add_option("--image-size", flags.image,
                      "Rows and columns of a network's images (default 224; 299 of inception-v3)")
          ->check(whole_number<int64_t>())
          ->type_name("PIXELS")};
}

}  // namespace kerf::apps
