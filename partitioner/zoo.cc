#include "partitioner/zoo.h"

#include <charconv>
#include <cmath>

#include "partitioner/builder.h"

namespace kerf::partitioner {

namespace {

// Large enough for anything that fits a machine, small enough that no product of two overflows.
constexpr int64_t kMostUnits = int64_t{1} << 24;

void check_sizes(const std::vector<int64_t>& sizes, const char* model) {
  for (const int64_t size : sizes)
    if (size < 1 || size > kMostUnits)
      throw Error(ErrorCode::kUsage, format("the size {} is not within 1 and {}", size, kMostUnits),
                  model);
}

Model make_mlp(std::vector<int64_t> sizes) {
  if (sizes.empty()) sizes = {784, 512, 512, 10};
  if (sizes.size() < 2)
    throw Error(ErrorCode::kUsage, "needs an input and an output size, as in --sizes 784-10",
                "mlp");
  check_sizes(sizes, "mlp");
  Builder b("mlp");
  ValueId x = b.input("image", {ops::kBatch, sizes.front()});
  for (size_t layer = 1; layer < sizes.size(); ++layer) {
    x = b.gemm(x, sizes[layer], format("fc{}", layer));
    if (layer + 1 < sizes.size()) x = b.relu(x, format("relu{}", layer));
  }
  b.loss(x);
  return b.build();
}

Model make_lenet5(const std::string& name) {
  Builder b(name);
  const auto normalized = [&](ValueId value, const char* as) {
    return name == "lenet5-bn" ? b.batch_norm(value, as) : value;
  };
  ValueId x = b.input("image", {ops::kBatch, 1, 28, 28});
  x = b.relu(normalized(b.conv(x, 6, 5, 1, 2, "conv1"), "bn1"), "relu1");
  x = b.max_pool(x, 2, 2, "pool1");
  x = b.relu(normalized(b.conv(x, 16, 5, 1, 0, "conv2"), "bn2"), "relu2");
  x = b.max_pool(x, 2, 2, "pool2");
  x = b.flatten(x, "flatten");
  x = b.relu(b.gemm(x, 120, "fc1"), "relu3");
  x = b.relu(b.gemm(x, 84, "fc2"), "relu4");
  b.loss(b.gemm(x, 10, "fc3"));
  return b.build();
}

// Pairs of 3x3 convolutions, each pair followed by a maximum over 2x2 (Simonyan and Zisserman 2014,
// in small).
Model make_convnet(std::vector<int64_t> sizes) {
  constexpr size_t kMostBlocks = 4;  // of 28 rows the fourth leaves 1
  if (sizes.empty()) sizes = {32, 64};
  if (sizes.size() > kMostBlocks)
    throw Error(ErrorCode::kUsage,
                format("has {} blocks at most, of as many channels as --sizes says, as in 32-64",
                       kMostBlocks),
                "convnet");
  check_sizes(sizes, "convnet");
  Builder b("convnet");
  ValueId x = b.input("image", {ops::kBatch, 1, 28, 28});
  for (size_t block = 1; block <= sizes.size(); ++block) {
    for (const char* half : {"a", "b"}) {
      const std::string number = std::to_string(block) + half;
      x = b.relu(b.conv(x, sizes[block - 1], 3, 1, 1, "conv" + number), "relu" + number);
    }
    x = b.max_pool(x, 2, 2, format("pool{}", block));
  }
  x = b.relu(b.gemm(b.flatten(x, "flatten"), 128, "fc1"), "relu");
  b.loss(b.gemm(x, 10, "fc2"));
  return b.build();
}

Model make_lstm_lm(std::vector<int64_t> sizes) {
  if (sizes.empty()) sizes = {16, 32, 32, 64};
  if (sizes.size() != 4)
    throw Error(ErrorCode::kUsage,
                "needs four sizes: tokens in a row, vocabulary, embedding, hidden units, as in "
                "--sizes 16-32-32-64",
                "lstm-lm");
  check_sizes(sizes, "lstm-lm");
  Builder b("lstm-lm");
  const ValueId tokens = b.input("tokens", {ops::kBatch, sizes[0]}, ops::DType::kInt64);
  const ValueId x = b.embedding(tokens, sizes[1], sizes[2], "embedding");
  const ValueId h = b.lstm(x, sizes[3], "lstm");
  const double scale = 1 / std::sqrt(static_cast<double>(sizes[3]));
  const ValueId weight =
      b.parameter("scores.weight", {sizes[3], sizes[1]}, {ops::Initializer::Kind::kUniform, scale});
  const ValueId scores = b.matmul(h, weight, "scores");  // [N, T, V]
  b.loss(b.node("Transpose", {scores}, {{"perm", std::vector<int64_t>{0, 2, 1}}}, "by_token"));
  return b.build();
}

}  // namespace

std::vector<std::string> zoo_names() {
  return {"mlp", "lenet5", "lenet5-bn", "convnet", "lstm-lm"};
}

Model make_zoo_model(const std::string& name, const ZooOptions& options) {
  if (name == "mlp") return make_mlp(options.sizes);
  if (name == "lstm-lm") return make_lstm_lm(options.sizes);
  if (name == "convnet") return make_convnet(options.sizes);
  if (name != "lenet5" && name != "lenet5-bn")
    throw Error(ErrorCode::kUsage,
                format("there is no model of this name; the built-in models are {}",
                       fmt::join(zoo_names(), ", ")),
                name);
  if (!options.sizes.empty())
    throw Error(ErrorCode::kUsage, "its sizes are fixed; --sizes is for mlp, convnet and lstm-lm",
                name);
  return make_lenet5(name);
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

}  // namespace kerf::partitioner
