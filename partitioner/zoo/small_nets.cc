// Small networks for small images and sequences: mlp, LeNet-5, a convolution net, an LSTM language
// model, an LSTM that reads one sequence and writes another.
#include <algorithm>
#include <array>
#include <cmath>

#include "partitioner/builder.h"
#include "partitioner/zoo/families.h"
#include "runtime/error.h"

namespace kerf::partitioner {
namespace {

void check_sizes(const std::vector<int64_t>& sizes, const std::string& model) {
  for (const int64_t size : sizes)
    if (size < 1 || size > kMostUnits)
      throw Error(ErrorCode::kUsage, format("the size {} is not within 1 and {}", size, kMostUnits),
                  model);
}

}  // namespace

std::vector<int64_t> sizes_or(const ZooOptions& options, std::vector<int64_t> otherwise,
                              const std::string& name) {
  if (options.sizes.empty()) return otherwise;
  if (options.sizes.size() != otherwise.size())
    throw Error(ErrorCode::kUsage,
                format("needs {} sizes, as in --sizes {}: {}", otherwise.size(),
                       fmt::join(otherwise, "-"), find_zoo_model(name).sizes),
                name);
  check_sizes(options.sizes, name);
  return options.sizes;
}

void check_layers(int64_t layers, const std::string& name) {
  if (layers > kMostLayers)
    throw Error(ErrorCode::kUsage, format("{} layers are more than {}", layers, kMostLayers), name);
}

int64_t scaled_units(double width, int64_t units, int64_t unit) {
  const double wanted = static_cast<double>(units) * width / static_cast<double>(unit);
  return std::max<int64_t>(1, std::llround(wanted)) * unit;
}

Model make_mlp(const std::string& name, const ZooOptions& options) {
  std::vector<int64_t> sizes = options.sizes;
  if (sizes.empty()) sizes = {784, 512, 512, 10};
  if (sizes.size() < 2)
    throw Error(ErrorCode::kUsage, "needs an input and an output size, as in --sizes 784-10", name);
  check_sizes(sizes, name);
  for (size_t layer = 1; layer + 1 < sizes.size(); ++layer)
    sizes[layer] = scaled_units(options.width, sizes[layer]);
  Builder b(name);
  ValueId x = b.input("image", {ops::kBatch, sizes.front()});
  for (size_t layer = 1; layer < sizes.size(); ++layer) {
    x = b.gemm(x, sizes[layer], format("fc{}", layer));
    if (layer + 1 < sizes.size()) x = b.relu(x, format("relu{}", layer));
  }
  b.loss(x);
  return b.build();
}

Model make_lenet5(const std::string& name, const ZooOptions& options) {
  Builder b(name);
  const auto scaled = [&](int64_t units) { return scaled_units(options.width, units); };
  const auto normalized = [&](ValueId value, const char* as) {
    return name == "lenet5-bn" ? b.batch_norm(value, as) : value;
  };
  ValueId x = b.input("image", {ops::kBatch, 1, 28, 28});
  x = b.relu(normalized(b.conv(x, scaled(6), 5, 1, 2, "conv1"), "bn1"), "relu1");
  x = b.max_pool(x, 2, 2, "pool1");
  x = b.relu(normalized(b.conv(x, scaled(16), 5, 1, 0, "conv2"), "bn2"), "relu2");
  x = b.max_pool(x, 2, 2, "pool2");
  x = b.flatten(x, "flatten");
  x = b.relu(b.gemm(x, scaled(120), "fc1"), "relu3");
  x = b.relu(b.gemm(x, scaled(84), "fc2"), "relu4");
  b.loss(b.gemm(x, 10, "fc3"));
  return b.build();
}

// Pairs of 3x3 convolutions, each pair followed by a maximum over 2x2 (Simonyan and Zisserman 2014,
// in small).
Model make_convnet(const std::string& name, const ZooOptions& options) {
  constexpr size_t kMostBlocks = 4;  // of 28 rows the fourth leaves 1
  std::vector<int64_t> sizes = options.sizes;
  if (sizes.empty()) sizes = {32, 64};
  if (sizes.size() > kMostBlocks)
    throw Error(ErrorCode::kUsage,
                format("has {} blocks at most, of as many channels as --sizes says, as in 32-64",
                       kMostBlocks),
                name);
  check_sizes(sizes, name);
  const auto scaled = [&](int64_t units) { return scaled_units(options.width, units); };
  Builder b(name);
  ValueId x = b.input("image", {ops::kBatch, 1, 28, 28});
  for (size_t block = 1; block <= sizes.size(); ++block) {
    for (const char* half : {"a", "b"}) {
      const std::string number = std::to_string(block) + half;
      x = b.relu(b.conv(x, scaled(sizes[block - 1]), 3, 1, 1, "conv" + number), "relu" + number);
    }
    x = b.max_pool(x, 2, 2, format("pool{}", block));
  }
  x = b.relu(b.gemm(b.flatten(x, "flatten"), scaled(128), "fc1"), "relu");
  b.loss(b.gemm(x, 10, "fc2"));
  return b.build();
}

Model make_lstm_lm(const std::string& name, const ZooOptions& options) {
  const auto sizes = sizes_or(options, {16, 32, 32, 64}, name);
  const auto [length, vocabulary] = std::array{sizes[0], sizes[1]};
  const int64_t width = scaled_units(options.width, sizes[2]);
  const int64_t hidden = scaled_units(options.width, sizes[3]);
  Builder b(name);
  const ValueId tokens = b.input("tokens", {ops::kBatch, length}, ops::DType::kInt64);
  const ValueId x = b.embedding(tokens, vocabulary, width, "embedding");
  const ValueId h = b.lstm(x, hidden, "lstm");
  const double scale = 1 / std::sqrt(static_cast<double>(hidden));
  const ValueId weight =
      b.parameter("scores.weight", {hidden, vocabulary}, {ops::Initializer::Kind::kUniform, scale});
  b.store(weight, stored_turned("scores.weight", {hidden, vocabulary}, {1, 0}));
  const ValueId scores = b.matmul(h, weight, "scores");  // [N, T, V]
  b.loss(b.node("Transpose", {scores}, {{"perm", std::vector<int64_t>{0, 2, 1}}}, "by_token"));
  return b.build();
}

// Sutskever et al. 2014, "Sequence to sequence learning with neural networks": each layer of the
// decoder begins with what the encoder's layer ended with. The decoder reads the target that it is
// to give, one token late (teacher forcing). The paper's turning over of the source is left to who
// makes the rows.
Model make_seq2seq(const std::string& name, const ZooOptions& options) {
  const auto sizes = sizes_or(options, {16, 16, 32, 32, 64, 2}, name);
  const auto [from, to, vocabulary, layers] = std::array{sizes[0], sizes[1], sizes[2], sizes[5]};
  check_layers(layers, name);
  const int64_t width = scaled_units(options.width, sizes[3]);
  const int64_t hidden = scaled_units(options.width, sizes[4]);
  Builder b(name);
  const ValueId source = b.input("source", {ops::kBatch, from}, ops::DType::kInt64);
  const ValueId target = b.input("target", {ops::kBatch, to}, ops::DType::kInt64);
  const auto sequence = [&](ValueId y, const char* module, int64_t layer) {
    return b.reshape(y, {0, 0, hidden}, format("{}.l{}.sequence", module, layer));
  };
  ValueId x = b.embedding(source, vocabulary, width, "source_embedding");
  std::vector<LstmStates> states;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const LstmOutputs encoded = b.lstm_layer(x, hidden, {}, "encoder", layer);
    states.push_back(encoded.last);
    if (layer + 1 < layers) x = sequence(encoded.y, "encoder", layer);
  }
  x = b.embedding(target, vocabulary, width, "target_embedding");
  for (int64_t layer = 0; layer < layers; ++layer) {
    const LstmStates& first = states[static_cast<size_t>(layer)];
    x = sequence(b.lstm_layer(x, hidden, first, "decoder", layer).y, "decoder", layer);
  }
  const ValueId scores = b.linear(x, vocabulary, "scores");  // [N, T, V]
  b.loss(b.node("Transpose", {scores}, {{"perm", std::vector<int64_t>{0, 2, 1}}}, "by_token"));
  return b.build();
}

}  // namespace kerf::partitioner
