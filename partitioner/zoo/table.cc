// The table of built-in models, and their options as a text.
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "partitioner/losses.h"
#include "partitioner/zoo.h"
#include "partitioner/zoo/families.h"
#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

constexpr std::array kModels = {
    ZooModel{"mlp", "fully connected layers with ReLU between",
             "input, hidden ..., classes: 784-512-512-10", false, make_mlp},
    ZooModel{"lenet5", "LeNet-5 with ReLU and max pooling, for 28x28 images (LeCun et al. 1998)",
             "", false, make_lenet5},
    ZooModel{"lenet5-bn", "the same, a batch normalisation after each convolution", "", false,
             make_lenet5},
    ZooModel{"convnet", "pairs of 3x3 convolutions and max pooling, for 28x28 images",
             "channels of each pair: 32-64", false, make_convnet},
    ZooModel{"alexnet", "torchvision's AlexNet, one tower (Krizhevsky 2014)", "", true,
             make_alexnet},
    ZooModel{"bvlc-alexnet", "Caffe's AlexNet: two towers as groups, LRN (Krizhevsky et al. 2012)",
             "", true, make_bvlc_alexnet},
    ZooModel{"vgg16", "16 layers of 3x3 convolutions (Simonyan, Zisserman 2014)", "", true,
             make_vgg},
    ZooModel{"vgg19", "19 layers of 3x3 convolutions (Simonyan, Zisserman 2014)", "", true,
             make_vgg},
    ZooModel{"inception-v1",
             "Caffe's GoogLeNet, without auxiliary classifiers (Szegedy et al. 2014)", "", true,
             make_inception_v1},
    ZooModel{"inception-v3",
             "torchvision's Inception v3, without the auxiliary classifier (Szegedy et al. 2015)",
             "", true, make_inception_v3},
    ZooModel{"resnet18", "18 layers with skips (He et al. 2015)", "", true, make_resnet},
    ZooModel{"resnet50", "50 layers with skips, strides in the 3x3 (He et al. 2015)", "", true,
             make_resnet},
    ZooModel{"resnet101", "101 layers with skips (He et al. 2015)", "", true, make_resnet},
    ZooModel{"densenet121", "every layer reads all before it in its block (Huang et al. 2016)", "",
             true, make_densenet},
    ZooModel{"squeezenet", "SqueezeNet 1.1: fire modules (Iandola et al. 2016)", "", true,
             make_squeezenet},
    ZooModel{"shufflenet", "ShuffleNet v2, 1x: channel shuffles (Ma et al. 2018)", "", true,
             make_shufflenet},
    ZooModel{"lstm-lm", "a language model: a score of every token follows each",
             "tokens in a row, vocabulary, embedding, hidden units: 16-32-32-64", false,
             make_lstm_lm},
    ZooModel{"seq2seq", "an LSTM encoder whose last states begin a decoder (Sutskever et al. 2014)",
             "tokens of a source, of a target, vocabulary, embedding, hidden units, layers: "
             "16-16-32-32-64-2",
             false, make_seq2seq},
    ZooModel{"gpt", "a decoder-only transformer, pre-norm, exact GELU (Radford et al. 2019)",
             "layers, features, heads, tokens in a row, vocabulary: 4-512-8-128-96", false,
             make_gpt},
    ZooModel{"vit", "the vision transformer ViT-B/16 (Dosovitskiy et al. 2020)",
             "layers, features, heads, pixels of a patch: 12-768-12-16", true, make_vit},
};

void check(const ZooModel& model, const ZooOptions& options) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, why, std::string(model.name));
  };
  if (!options.sizes.empty() && model.sizes.empty()) {
    std::vector<std::string_view> others;
    for (const ZooModel& other : zoo())
      if (!other.sizes.empty()) others.push_back(other.name);
    refuse(format("its sizes are fixed; --sizes is for {}", fmt::join(others, ", ")));
  }
  if ((options.classes || options.image) && !model.images)
    refuse("--classes and --image-size are for the models of colour images");
  if (!(options.width > 0 && options.width <= 16))
    refuse(format("the width {} is not above 0 and at most 16", options.width));
  if (options.classes && (*options.classes < 1 || *options.classes > kMostUnits))
    refuse(format("{} classes are not within 1 and {}", *options.classes, kMostUnits));
  if (options.image && (*options.image < 1 || *options.image > kMostPixels))
    refuse(format("images of {} rows are not within 1 and {}", *options.image, kMostPixels));
}

template <class Number>
Number number_of(std::string_view text, const std::string& where) {
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::kUsage, format("\"{}\" is no number", text), where);
  return number;
}

}  // namespace

std::span<const ZooModel> zoo() { return kModels; }

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const ZooModel& model : zoo()) names.emplace_back(model.name);
  return names;
}

const ZooModel& find_zoo_model(const std::string& name) {
  for (const ZooModel& model : zoo())
    if (model.name == name) return model;
  throw Error(ErrorCode::kUsage,
              format("there is no model of this name; the built-in models are {}",
                     fmt::join(zoo_names(), ", ")),
              name);
}

Model make_zoo_model(const std::string& name, const ZooOptions& options) {
  const ZooModel& model = find_zoo_model(name);
  check(model, options);
  Model made = model.make(name, options);
  return options.loss.empty() ? made : with_loss(made, options.loss);
}

std::vector<int64_t> parse_sizes(const std::string& text) {
  std::vector<int64_t> sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int64_t size = 0;
    const auto [next, fault] = std::from_chars(at, end, size);
    const bool good =
        fault == std::errc() && size >= 1 && size <= kMostUnits && (next == end || *next == '-');
    if (!good)
      throw Error(ErrorCode::kUsage,
                  format("\"{}\": sizes are whole numbers within 1 and {} joined by dashes, as in "
                         "784-512-10",
                         text, kMostUnits),
                  "--sizes");
    sizes.push_back(size);
    if (next == end) return sizes;
    at = next + 1;
  }
}

std::string zoo_text(const std::string& name, const ZooOptions& options) {
  std::string text = name;
  if (!options.sizes.empty()) text += format(" {}", fmt::join(options.sizes, "-"));
  if (options.width != 1) text += format(" width={}", options.width);
  if (options.classes) text += format(" classes={}", *options.classes);
  if (options.image) text += format(" image={}", *options.image);
  if (!options.loss.empty()) text += format(" loss={}", options.loss);
  return text;
}

Model make_zoo_model_of(const std::string& text) {
  std::istringstream words(text);
  std::string name;
  words >> name;
  ZooOptions options;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (equals == std::string::npos)
      options.sizes = parse_sizes(word);
    else if (key == "width")
      options.width = number_of<double>(value, text);
    else if (key == "classes")
      options.classes = number_of<int64_t>(value, text);
    else if (key == "image")
      options.image = number_of<int64_t>(value, text);
    else if (key == "loss")
      options.loss = value;
    else
      throw Error(ErrorCode::kUsage, format("a model has no option '{}'", key), text);
  }
  return make_zoo_model(name, options);
}

}  // namespace kerf::partitioner
