// Operators that need a whole row of classes, by their formulas, in float64.
#include <algorithm>
#include <cmath>

#include "tests/conformance/operator_reference.h"

namespace kerf::ops {
namespace {

// The elements along one axis, a row at a time.
struct ClassRows {
  ClassRows(const Shape& shape, int axis) : length(shape[axis]) {
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
  }
  // Of row r, element c.
  size_t at(int64_t row, int64_t c) const {
    return static_cast<size_t>((row / inner * length + c) * inner + row % inner);
  }
  int64_t rows() const { return outer * inner; }

  int64_t length;
  int64_t outer = 1;
  int64_t inner = 1;
};

std::vector<double> row_of(const HostTensor& tensor, const ClassRows& lines, int64_t row) {
  std::vector<double> values;
  for (int64_t c = 0; c < lines.length; ++c)
    values.push_back(double{tensor.floats[lines.at(row, c)]});
  return values;
}

double log_of_sum(const std::vector<double>& row) {
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  return std::log(sum);
}

Reference softmax_reference(const OperatorCase& scene, const HostTensor& x) {
  const int64_t given = attribute_int(scene.attributes, "axis", -1);
  const ClassRows lines(x.shape, static_cast<int>(given < 0 ? given + x.shape.rank() : given));
  Reference reference;
  reference.terms = lines.length + 10;
  reference.values.resize(x.floats.size());
  for (int64_t row = 0; row < lines.rows(); ++row) {
    const std::vector<double> values = row_of(x, lines, row);
    const double total = log_of_sum(values);
    const auto largest = std::max_element(values.begin(), values.end()) - values.begin();
    for (int64_t c = 0; c < lines.length; ++c) {
      const double logarithm = values[static_cast<size_t>(c)] - total;
      reference.values[lines.at(row, c)] = scene.op == "LogSoftmax" ? logarithm
                                           : scene.op == "Softmax"  ? std::exp(logarithm)
                                                                    : (c == largest ? 1 : 0);
    }
  }
  for (const double value : reference.values)
    reference.magnitudes.push_back(std::max(1.0, std::abs(value)));
  return reference;
}

// The suite's normaliser is 4.
Reference label_loss_reference(const OperatorCase& scene, const std::vector<HostTensor>& in) {
  const ClassRows lines(in[0].shape, 1);
  const bool weighted = scene.inputs.size() > 2 && scene.inputs[2].present;
  const bool ignores = scene.attributes.contains("ignore_index");
  const int64_t ignored = attribute_int(scene.attributes, "ignore_index", 0);
  const std::string reduction = attribute_string(scene.attributes, "reduction", "mean");
  Reference reference;
  reference.terms = lines.rows() + lines.length + 10;
  double sum = 0;
  double weights = 0;
  for (int64_t row = 0; row < lines.rows(); ++row) {
    const std::vector<double> scores = row_of(in[0], lines, row);
    const int64_t label = in[1].integers[static_cast<size_t>(row)];
    double weight = weighted ? double{in[2].floats[static_cast<size_t>(label)]} : 1;
    if (ignores && label == ignored) weight = 0;
    const double total = scene.op == "SoftmaxCrossEntropyLoss" ? log_of_sum(scores) : 0;
    const double loss = weight * (total - scores[static_cast<size_t>(label)]);
    if (reduction == "none") {
      reference.values.push_back(loss);
      reference.magnitudes.push_back(std::abs(loss) + 1);
    }
    sum += loss;
    weights += weight;
  }
  if (reduction == "none") return reference;
  const double divisor = reduction == "sum" ? 1 : weighted || ignores ? weights : 4;
  reference.values = {sum / divisor};
  reference.magnitudes = {std::abs(sum) + 1};
  return reference;
}

}  // namespace

std::optional<Reference> row_reference(const OperatorCase& scene,
                                       const std::vector<HostTensor>& inputs) {
  if (scene.op == "Softmax" || scene.op == "LogSoftmax" || scene.op == "Hardmax")
    return softmax_reference(scene, inputs[0]);
  if (scene.op == "SoftmaxCrossEntropyLoss" || scene.op == "NegativeLogLikelihoodLoss")
    return label_loss_reference(scene, inputs);
  return std::nullopt;
}

}  // namespace kerf::ops
