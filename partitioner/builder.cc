#include "partitioner/builder.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

namespace kerf::partitioner {

namespace {

ops::Initializer uniform_by_fan_in(int64_t fan_in) {
  return {ops::Initializer::Kind::kUniform, 1.0 / std::sqrt(static_cast<double>(fan_in))};
}

ops::ValueSpec floats(const ops::Shape& shape) { return {ops::DType::kFloat32, shape}; }

constexpr ops::Initializer kZeros = {ops::Initializer::Kind::kZero};
constexpr ops::Initializer kOnes = {ops::Initializer::Kind::kOne};

}  // namespace

Builder::Builder(std::string name) : model_(std::move(name)) {}

std::string Builder::next_name(const std::string& op, const std::string& name) {
  if (!name.empty()) return name;
  std::string base;
  for (const char c : op) base += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string next;
  do {
    next = format("{}{}", base, ++count_[base]);
  } while (model_.find_node(next) >= 0);
  return next;
}

ValueId Builder::input(const std::string& name, const ops::Shape& shape, ops::DType dtype) {
  return model_.add_input(name, {dtype, shape});
}

ValueId Builder::parameter(const std::string& name, const ops::Shape& shape,
                           const ops::Initializer& initializer) {
  return model_.add_parameter(name, floats(shape), initializer);
}

ValueId Builder::constant(const std::string& name, ops::TensorLiteral literal) {
  return model_.add_constant(name, std::move(literal));
}

ValueId Builder::node(const std::string& op, const std::vector<ValueId>& inputs,
                      const ops::Attributes& attributes, const std::string& name) {
  const NodeId id = model_.add_node(next_name(op, name), op, attributes, inputs);
  return model_.node(id).outputs.front();
}

std::vector<ValueId> Builder::nodes(const std::string& op, const std::vector<ValueId>& inputs,
                                    const ops::Attributes& attributes, int outputs,
                                    const std::string& name) {
  return model_.node(model_.add_node(next_name(op, name), op, attributes, inputs, outputs)).outputs;
}

ops::Shape Builder::shape_of(ValueId x, const std::string& op, const std::string& name, int rank,
                             const char* advice) const {
  const std::string where = format("{}: node {}", model_.name(), name);
  if (x < 0 || x >= model_.values())
    throw Error(ErrorCode::kUsage, format("{}: there is no value number {}", op, x), where);
  const ops::Shape& shape = model_.value(x).spec.shape;
  if (shape.rank() != rank)
    throw Error(ErrorCode::kUsage,
                format("{}: input has {} axes, needs {}{}", op, shape.rank(), rank, advice), where);
  return shape;
}

void Builder::check_positive(int64_t extent, const char* what, const std::string& op,
                             const std::string& name) const {
  if (extent < 1)
    throw Error(ErrorCode::kUsage, format("{}: {} {}, needs at least 1", op, extent, what),
                format("{}: node {}", model_.name(), name));
}

ValueId Builder::gemm(ValueId x, int64_t outputs, const std::string& name, const Start& start) {
  const std::string as = next_name("Gemm", name);
  const int64_t features = shape_of(x, "Gemm", as, 2, "; flatten it first")[1];
  check_positive(outputs, "outputs", "Gemm", as);
  const ops::Initializer layers = uniform_by_fan_in(features);
  const ValueId weight =
      parameter(as + ".weight", {outputs, features}, start.weight.value_or(layers));
  const ValueId bias = parameter(as + ".bias", {outputs}, start.bias.value_or(layers));
  return node("Gemm", {x, weight, bias}, {{"transB", int64_t{1}}}, as);
}

ValueId Builder::linear(ValueId x, int64_t outputs, const std::string& name, const Start& start) {
  const std::string as = next_name("Gemm", name);
  const ops::Shape sequences = shape_of(x, "Gemm", as, 3, "");
  const ValueId rows = reshape(x, {-1, sequences[2]}, as + ".rows");
  const ValueId y = gemm(rows, outputs, as, start);
  return reshape(y, {-1, sequences[1], outputs}, as + ".sequences");
}

ValueId Builder::conv(ValueId x, int64_t channels, int64_t kernel, int64_t stride, int64_t pad,
                      const std::string& name) {
  return conv(
      x, {.channels = channels, .kernel = {kernel, kernel}, .stride = stride, .pad = {pad, pad}},
      name);
}

ValueId Builder::conv(ValueId x, const ConvOptions& options, const std::string& name) {
  const std::string as = next_name("Conv", name);
  const int64_t channels = shape_of(x, "Conv", as, 4, "")[1];
  const auto [rows, columns] = options.kernel;
  check_positive(options.channels, "channels", "Conv", as);
  check_positive(options.groups, "groups", "Conv", as);
  check_positive(std::min(rows, columns), "kernel extent", "Conv", as);
  const int64_t from = channels / options.groups;
  const ops::Initializer layers = uniform_by_fan_in(std::max<int64_t>(1, from * rows * columns));
  std::vector<ValueId> inputs{x, parameter(as + ".weight", {options.channels, from, rows, columns},
                                           options.start.weight.value_or(layers))};
  if (options.bias)
    inputs.push_back(
        parameter(as + ".bias", {options.channels}, options.start.bias.value_or(layers)));
  using Ints = std::vector<int64_t>;
  const auto [above, left] = options.pad;
  ops::Attributes attributes{{"kernel_shape", Ints{rows, columns}},
                             {"strides", Ints{options.stride, options.stride}},
                             {"pads", Ints{above, left, above, left}}};
  if (options.groups != 1) attributes.emplace("group", options.groups);
  return node("Conv", inputs, attributes, as);
}

ValueId Builder::relu(ValueId x, const std::string& name) { return node("Relu", {x}, {}, name); }

ValueId Builder::max_pool(ValueId x, int64_t kernel, int64_t stride, const std::string& name) {
  using Ints = std::vector<int64_t>;
  return node("MaxPool", {x},
              {{"kernel_shape", Ints{kernel, kernel}}, {"strides", Ints{stride, stride}}}, name);
}

ValueId Builder::average_pool(ValueId x, int64_t kernel, int64_t stride, const std::string& name) {
  using Ints = std::vector<int64_t>;
  return node("AveragePool", {x},
              {{"kernel_shape", Ints{kernel, kernel}}, {"strides", Ints{stride, stride}}}, name);
}

ValueId Builder::flatten(ValueId x, const std::string& name) {
  return node("Flatten", {x}, {}, name);
}

ValueId Builder::reshape(ValueId x, const std::vector<int64_t>& shape, const std::string& name) {
  return node("Reshape", {x}, {{"shape", shape}}, name);
}

ValueId Builder::add(ValueId a, ValueId b, const std::string& name) {
  return node("Add", {a, b}, {}, name);
}

ValueId Builder::matmul(ValueId a, ValueId b, const std::string& name) {
  return node("MatMul", {a, b}, {}, name);
}

ValueId Builder::softmax(ValueId x, const std::string& name) {
  return node("Softmax", {x}, {}, name);
}

ValueId Builder::dropout(ValueId x, double ratio, const std::string& name) {
  return node("Dropout", {x}, {{"ratio", ratio}}, name);
}

ValueId Builder::batch_norm(ValueId x, const std::string& name, double epsilon) {
  const std::string as = next_name("BatchNormalization", name);
  const ops::Shape channels{model_.value(x).spec.shape[1]};
  const ValueId scale = parameter(as + ".weight", channels, kOnes);
  const ValueId shift = parameter(as + ".bias", channels, kZeros);
  const ValueId mean =
      model_.add_parameter(as + ".running_mean", floats(channels), kZeros, Role::kState);
  const ValueId variance =
      model_.add_parameter(as + ".running_var", floats(channels), kOnes, Role::kState);
  ops::Attributes attributes{{"training_mode", int64_t{1}}};
  if (epsilon != 1e-5) attributes.emplace("epsilon", epsilon);  // ONNX's default
  const NodeId id =
      model_.add_node(as, "BatchNormalization", attributes, {x, scale, shift, mean, variance}, 3);
  return model_.node(id).outputs.front();
}

ValueId Builder::layer_norm(ValueId x, const std::string& name, double epsilon) {
  const std::string as = next_name("LayerNormalization", name);
  const ops::Shape& all = shape(x);
  const ops::Shape features{all[all.rank() - 1]};
  const ValueId scale = parameter(as + ".weight", features, kOnes);
  const ValueId shift = parameter(as + ".bias", features, kZeros);
  return node("LayerNormalization", {x, scale, shift}, {{"epsilon", epsilon}}, as);
}

ValueId Builder::embedding(ValueId tokens, int64_t vocabulary, int64_t width,
                           const std::string& name, double deviation) {
  const std::string as = next_name("Gather", name);
  check_positive(vocabulary, "tokens", "Gather", as);
  check_positive(width, "features", "Gather", as);
  const ValueId table =
      parameter(as + ".weight", {vocabulary, width}, {ops::Initializer::Kind::kNormal, deviation});
  return node("Gather", {table, tokens}, {}, as);
}

LstmOutputs Builder::add_lstm(ValueId x, int64_t hidden, const LstmStates& first,
                              const std::string& name, const std::string& module, int64_t layer) {
  const ops::Shape shape = shape_of(x, "LSTM", name, 3, "");
  check_positive(hidden, "hidden units", "LSTM", name);
  const ops::Initializer start = uniform_by_fan_in(hidden);
  const auto weight = [&](const char* which, int64_t columns) {
    const ops::Shape of{1, 4 * hidden, columns};
    const ValueId id = parameter(format("{}.{}", name, which), of, start);
    store(id, stored_cell_weight(module, which, layer, of, kLstmGates));
    return id;
  };
  const ValueId input_weight = weight("weight_ih", shape[2]);
  const ValueId hidden_weight = weight("weight_hh", hidden);
  const ops::Shape biases{1, 8 * hidden};
  const ValueId bias = parameter(name + ".bias", biases, start);
  store(bias, stored_cell_bias(module, layer, biases, kLstmGates));
  std::vector<ValueId> inputs{x, input_weight, hidden_weight, bias};
  if (first.h >= 0 || first.c >= 0) inputs.insert(inputs.end(), {-1, first.h, first.c});
  const auto outputs =
      nodes("LSTM", inputs, {{"hidden_size", hidden}, {"layout", int64_t{1}}}, 3, name);
  return {outputs[0], {outputs[1], outputs[2]}};
}

ValueId Builder::lstm(ValueId x, int64_t hidden, const std::string& name) {
  const std::string as = next_name("LSTM", name);
  const ValueId y = add_lstm(x, hidden, {}, as, as, 0).y;
  return reshape(y, {0, 0, hidden}, as + ".sequence");  // without the one direction
}

LstmOutputs Builder::lstm_layer(ValueId x, int64_t hidden, const LstmStates& first,
                                const std::string& module, int64_t layer) {
  return add_lstm(x, hidden, first, format("{}.l{}", module, layer), module, layer);
}

void Builder::store(ValueId parameter, StoredForm form) {
  model_.set_stored(parameter, std::make_shared<const StoredForm>(std::move(form)));
}

ValueId Builder::loss(ValueId scores) {
  const ops::Shape& shape = model_.value(scores).spec.shape;
  std::vector<int64_t> labels{ops::kBatch};
  for (int axis = 2; axis < shape.rank(); ++axis) labels.push_back(shape[axis]);
  const ValueId label = model_.add_label("label", {ops::DType::kInt64, ops::Shape(labels)});
  return node("SoftmaxCrossEntropyLoss", {scores, label}, {}, "loss");
}

Model Builder::build() {
  model_.check();
  return model_;
}

}  // namespace kerf::partitioner
