// Operators that need a whole row of classes, by their formulas, in float64.
#include <algorithm>
#include <cmath>

#include "tests/conformance/operator_reference.h"
#include "tests/conformance/reference_loops.h"

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
  const double most = reference::largest(row);
  double sum = 0;
  for (const double x : row) sum += std::exp(x - most);
  return most + std::log(sum);
}

Reference softmax_reference(const OperatorCase& scene, const HostTensor& x) {
  const int64_t given = attribute_int(scene.attributes, "axis", -1);
  const ClassRows lines(x.shape, static_cast<int>(given < 0 ? given + x.shape.rank() : given));
  Reference reference;
  reference.terms = lines.length + 10;
  reference.values.resize(x.floats.size());
  for (int64_t row = 0; row < lines.rows(); ++row) {
    const std::vector<double> values = row_of(x, lines, row);
    const double most = reference::largest(values);
    double sum = 0;
    for (const double each : values) sum += std::exp(each - most);
    const auto chosen =
        std::find_if(values.begin(), values.end(),
                     [&](double each) { return std::isnan(each) || each == most; }) -
        values.begin();
    for (int64_t c = 0; c < lines.length; ++c) {
      const double lower = values[static_cast<size_t>(c)] - most;
      reference.values[lines.at(row, c)] = scene.op == "LogSoftmax" ? lower - std::log(sum)
                                           : scene.op == "Softmax"  ? std::exp(lower) / sum
                                                                    : (c == chosen ? 1 : 0);
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

void add_value(Reference& reference, double value) {
  reference.values.push_back(value);
  reference.magnitudes.push_back(std::abs(value) + 1);
}

// The maximum of each slice of the classes, or the logarithm of the sum of what is left of it.
Reference segments_reference(const OperatorCase& scene, const HostTensor& x, int which) {
  const auto bounds = attribute_ints(scene.attributes, "boundaries", {});
  const ClassRows lines(x.shape, static_cast<int>(attribute_int(scene.attributes, "axis", 1)));
  Reference reference;
  reference.terms = lines.length + 10;
  for (int64_t n = 0; n < lines.outer; ++n)
    for (size_t s = 0; s + 1 < bounds.size(); ++s)
      for (int64_t i = 0; i < lines.inner; ++i) {
        const auto row = row_of(x, lines, n * lines.inner + i);
        std::vector<double> slice(row.begin() + bounds[s], row.begin() + bounds[s + 1]);
        const double most = *std::max_element(slice.begin(), slice.end());
        for (double& score : slice) score -= most;
        add_value(reference, which == 0 ? most : log_of_sum(slice));
      }
  return reference;
}

// Along the last axis but those that `axis` leaves behind it; X, maximum, log_sum.
Reference segment_softmax_reference(const OperatorCase& scene, const std::vector<HostTensor>& in) {
  const int axis = static_cast<int>(attribute_int(scene.attributes, "axis", -1));
  const int at = axis < 0 ? in[0].shape.rank() + axis : axis;
  const ClassRows lines(in[0].shape, at);
  const ClassRows segments(in[1].shape, at);
  const bool logarithm = attribute_int(scene.attributes, "logarithm", 0) != 0;
  Reference reference;
  reference.terms = segments.length + 10;
  for (int64_t n = 0; n < lines.outer; ++n)
    for (int64_t c = 0; c < lines.length; ++c)
      for (int64_t i = 0; i < lines.inner; ++i) {
        std::vector<double> each = row_of(in[1], segments, n * lines.inner + i);
        const std::vector<double> sums = row_of(in[2], segments, n * lines.inner + i);
        for (size_t s = 0; s < each.size(); ++s) each[s] += sums[s];
        const double below =
            row_of(in[0], lines, n * lines.inner + i)[static_cast<size_t>(c)] - log_of_sum(each);
        add_value(reference, logarithm ? below : std::exp(below));
      }
  return reference;
}

Reference picked_reference(const std::vector<HostTensor>& in) {
  const ClassRows lines(in[0].shape, 1);
  Reference reference;
  for (int64_t row = 0; row < lines.rows(); ++row)
    add_value(reference,
              double{in[0].floats[lines.at(row, in[1].integers[static_cast<size_t>(row)])]});
  return reference;
}

// The suite's normaliser is 4.
Reference log_loss_reference(const std::vector<HostTensor>& in) {
  const ClassRows lines(in[0].shape, 1);
  Reference reference;
  reference.terms = lines.rows() + lines.length + 10;
  double sum = 0;
  for (int64_t row = 0; row < lines.rows(); ++row) {
    std::vector<double> scores = row_of(in[0], lines, row);
    const std::vector<double> sums = row_of(in[1], lines, row);
    for (size_t s = 0; s < scores.size(); ++s) scores[s] += sums[s];
    sum += log_of_sum(scores) - double{in[2].floats[static_cast<size_t>(row)]};
  }
  add_value(reference, sum / 4);
  return reference;
}

}  // namespace

std::optional<Reference> row_reference(const OperatorCase& scene,
                                       const std::vector<HostTensor>& inputs, int which) {
  if (scene.op == "SegmentLogSumExp") return segments_reference(scene, inputs[0], which);
  if (scene.op == "SegmentSoftmax") return segment_softmax_reference(scene, inputs);
  if (scene.op == "PickLabel") return picked_reference(inputs);
  if (scene.op == "LogLoss") return log_loss_reference(inputs);
  if (scene.op == "SoftmaxCrossEntropyLoss" && which == 1) {
    OperatorCase logarithms = scene;
    logarithms.op = "LogSoftmax";
    logarithms.attributes = {{"axis", int64_t{1}}};
    return softmax_reference(logarithms, inputs[0]);
  }
  if (scene.op == "Softmax" || scene.op == "LogSoftmax" || scene.op == "Hardmax")
    return softmax_reference(scene, inputs[0]);
  if (scene.op == "SoftmaxCrossEntropyLoss" || scene.op == "NegativeLogLikelihoodLoss")
    return label_loss_reference(scene, inputs);
  return std::nullopt;
}

}  // namespace kerf::ops
