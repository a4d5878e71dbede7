// Models in a few lines:
//
//   Builder b("tiny");
//   auto x = b.input("image", {kBatch, 1, 28, 28});
//   auto h = b.relu(b.gemm(b.flatten(x), 128));
//   b.loss(b.gemm(b.add(h, b.gemm(h, 128)), 10));
//   Model model = b.build();
//
// Each call adds one node, names it after its operator and number ("gemm1") unless a name is given,
// and returns its output. Parameters are initialised as PyTorch's layers are: uniform in
// +-1/sqrt(fan_in).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner {

// How a layer's parameters begin where it is not as PyTorch's layers do.
struct Start {
  std::optional<ops::Initializer> weight = {};
  std::optional<ops::Initializer> bias = {};
};

// A convolution of images; extents are of rows, then columns.
struct ConvOptions {
  int64_t channels = 1;
  std::array<int64_t, 2> kernel{1, 1};
  int64_t stride = 1;
  std::array<int64_t, 2> pad{0, 0};  // on either side
  int64_t groups = 1;
  bool bias = true;
  Start start = {};
};

// What an LSTM begins or ends with, [N, 1, hidden]; -1: zeros.
struct LstmStates {
  ValueId h = -1;
  ValueId c = -1;
};

struct LstmOutputs {
  ValueId y = -1;  // [N, T, 1, hidden]
  LstmStates last;
};

class Builder {
 public:
  explicit Builder(std::string name);

  ValueId input(const std::string& name, const ops::Shape& shape,
                ops::DType dtype = ops::DType::kFloat32);
  ValueId parameter(const std::string& name, const ops::Shape& shape,
                    const ops::Initializer& initializer);
  // What nothing trains.
  ValueId constant(const std::string& name, ops::TensorLiteral literal);
  ValueId gemm(ValueId x, int64_t outputs, const std::string& name = {}, const Start& start = {});
  // The same of every position of sequences [N, T, D]: [N, T, outputs].
  ValueId linear(ValueId x, int64_t outputs, const std::string& name = {}, const Start& start = {});
  ValueId conv(ValueId x, int64_t channels, int64_t kernel, int64_t stride = 1, int64_t pad = 0,
               const std::string& name = {});
  ValueId conv(ValueId x, const ConvOptions& options, const std::string& name = {});
  ValueId relu(ValueId x, const std::string& name = {});
  ValueId max_pool(ValueId x, int64_t kernel, int64_t stride, const std::string& name = {});
  ValueId average_pool(ValueId x, int64_t kernel, int64_t stride, const std::string& name = {});
  ValueId flatten(ValueId x, const std::string& name = {});
  ValueId reshape(ValueId x, const std::vector<int64_t>& shape, const std::string& name = {});
  ValueId add(ValueId a, ValueId b, const std::string& name = {});
  ValueId matmul(ValueId a, ValueId b, const std::string& name = {});
  ValueId softmax(ValueId x, const std::string& name = {});
  // Of a training model: statistics of the micro-batch, running ones as states.
  ValueId batch_norm(ValueId x, const std::string& name = {}, double epsilon = 1e-5);
  // Over the last axis.
  ValueId layer_norm(ValueId x, const std::string& name = {}, double epsilon = 1e-5);
  ValueId dropout(ValueId x, double ratio, const std::string& name = {});
  // Any operator by its ONNX name.
  ValueId node(const std::string& op, const std::vector<ValueId>& inputs,
               const ops::Attributes& attributes, const std::string& name = {});
  // Token by token a row of a table [vocabulary, width].
  ValueId embedding(ValueId tokens, int64_t vocabulary, int64_t width, const std::string& name = {},
                    double deviation = 1);
  // Of sequences [N, T, I], forward: [N, T, hidden].
  ValueId lstm(ValueId x, int64_t hidden, const std::string& name = {});
  // Layer `layer` of such a module, node "MODULE.l0" and on, from given states.
  LstmOutputs lstm_layer(ValueId x, int64_t hidden, const LstmStates& first,
                         const std::string& module, int64_t layer);
  // Of several outputs.
  std::vector<ValueId> nodes(const std::string& op, const std::vector<ValueId>& inputs,
                             const ops::Attributes& attributes, int outputs,
                             const std::string& name = {});
  // Adds the label input "label", [N] or one for each position of scores [N, C, ...], and the
  // softmax cross-entropy.
  ValueId loss(ValueId scores);
  // How files of weights have a parameter, where it is not as the model has it.
  void store(ValueId parameter, StoredForm form);

  // Of what was made.
  const ops::Shape& shape(ValueId value) const { return model_.value(value).spec.shape; }
  Model build();  // checks

 private:
  LstmOutputs add_lstm(ValueId x, int64_t hidden, const LstmStates& first, const std::string& name,
                       const std::string& module, int64_t layer);
  std::string next_name(const std::string& op, const std::string& name);
  // The shape of x; throws Error{kUsage} unless it has `rank` axes.
  ops::Shape shape_of(ValueId x, const std::string& op, const std::string& name, int rank,
                      const char* advice) const;
  void check_positive(int64_t extent, const char* what, const std::string& op,
                      const std::string& name) const;

  Model model_;
  std::map<std::string, int> count_;
};

}  // namespace kerf::partitioner
