#include "tests/conformance/operator_reference.h"

#include "ops/image_format.h"
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)

Reference gemm(const OperatorCase& scene, const std::vector<HostTensor>& in, const Shape& y) {
  const double alpha = attribute_float(scene.attributes, "alpha", 1);
  const double beta = attribute_float(scene.attributes, "beta", 1);
  const bool columns = attribute_int(scene.attributes, "transA", 0) != 0;
  const bool transposed = attribute_int(scene.attributes, "transB", 0) != 0;
  const bool biased = scene.inputs.size() > 2 && scene.inputs[2].present;
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    for (int64_t k = 0; k < in[0].shape[columns ? 0 : 1]; ++k)
      sum.add(at(in[0], columns ? Index{k, i[0]} : Index{i[0], k}) *
              at(in[1], transposed ? Index{i[1], k} : Index{k, i[1]}));
    sum.scale(alpha);
    if (biased) sum.add(beta * repeated_at(in[2], i));
    return sum;
  });
}

// A vector is a row on the left and a column on the right, of which Y has no axis.
Reference matmul(std::vector<HostTensor> in, const Shape& y) {
  const bool row = in[0].shape.rank() == 1;
  const bool column = in[1].shape.rank() == 1;
  if (row) in[0].shape = {1, in[0].shape[0]};
  if (column) in[1].shape = {in[1].shape[0], 1};
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    Index left = i;
    if (row) left.insert(left.end() - (column ? 0 : 1), 0);
    if (column) left.push_back(0);
    Index right = left;
    for (int64_t k = 0; k < in[0].shape[in[0].shape.rank() - 1]; ++k) {
      left.back() = k;
      right[right.size() - 2] = k;
      // The matrices' own axes are never repeated: their extent is what is summed over.
      sum.add(repeated_at(in[0], left) * repeated_at(in[1], right));
    }
    return sum;
  });
}

// Of an equation with `->` and without further axes: all indices of all letters, one after another.
std::optional<Reference> einsum(const OperatorCase& scene, const std::vector<HostTensor>& in,
                                const Shape& y) {
  std::string equation = attribute_string(scene.attributes, "equation", "");
  std::erase(equation, ' ');
  if (equation.find('.') != std::string::npos) return std::nullopt;
  const std::string output = equation.substr(equation.find("->") + 2);
  std::vector<std::string> terms{equation.substr(0, equation.find_first_of(",-"))};
  if (in.size() > 1) {
    const size_t comma = equation.find(',') + 1;
    terms.push_back(equation.substr(comma, equation.find("->") - comma));
  }
  std::string letters = output;
  std::vector<int64_t> extents(y.begin(), y.end());
  for (size_t t = 0; t < terms.size(); ++t)
    for (size_t a = 0; a < terms[t].size(); ++a)
      if (letters.find(terms[t][a]) == std::string::npos) {
        letters.push_back(terms[t][a]);
        extents.push_back(in[t].shape[static_cast<int>(a)]);
      }
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    for_each_element(Shape(extents), [&](const Index& all) {
      if (!std::equal(i.begin(), i.end(), all.begin())) return Sum();
      double product = 1;
      for (size_t t = 0; t < terms.size(); ++t) {
        Index own;
        for (const char letter : terms[t]) own.push_back(all[letters.find(letter)]);
        product *= repeated_at(in[t], own);
      }
      sum.add(product);
      return Sum();
    });
    return sum;
  });
}

// Computed as ONNX has it, from and to what lies channels last.
std::optional<Reference> of_channels_last(const OperatorCase& scene, std::vector<HostTensor> in,
                                          const Shape& output) {
  constexpr ImageFormat kLast = ImageFormat::kChannelsLast;
  const auto order = [](const Index& onnx) { return Index{onnx[0], onnx[2], onnx[3], onnx[1]}; };
  OperatorCase plain = scene;
  plain.attributes.erase(kChannelsLastAttribute);
  for (size_t image = 0; image < in.size(); ++image) {
    if (is_kept(scene.inputs[image].role) || in[image].shape.rank() != 4) continue;
    const HostTensor stored = in[image];
    in[image].shape = onnx_shape(kLast, stored.shape);
    for_each_element(in[image].shape, [&](const Index& i) {
      in[image].floats[static_cast<size_t>(flat(i, in[image].shape))] =
          static_cast<float>(at(stored, order(i)));
      return Sum();
    });
  }
  const Shape onnx = onnx_shape(kLast, output);
  const std::optional<Reference> found = reference_of(plain, in, onnx);
  if (!found) return std::nullopt;
  const Reference& computed = *found;
  Reference turned = computed;
  for_each_element(onnx, [&](const Index& i) {
    const auto from = static_cast<size_t>(flat(i, onnx));
    const auto to = static_cast<size_t>(flat(order(i), output));
    turned.values[to] = computed.values[from];
    turned.magnitudes[to] = computed.magnitudes[from];
    return Sum();
  });
  return turned;
}

}  // namespace

std::optional<Reference> reference_of(const OperatorCase& scene, const std::vector<HostTensor>& in,
                                      const Shape& output, int which) {
  if (which > 0) return further_reference(scene, in, output, which);
  if (auto integers = integer_reference(scene, in, output)) return integers;
  if (auto statistics = statistics_reference(scene, in, output, 0)) return statistics;
  if (auto pointwise = pointwise_reference(scene, in, output)) return pointwise;
  if (auto rows = row_reference(scene, in, 0)) return rows;
  if (auto moving = moving_reference(scene, in, output)) return moving;
  if (auto reduction = reduction_reference(scene, in, output)) return reduction;
  const Attributes& attributes = scene.attributes;
  const bool image = output.rank() == 4 && in[0].shape.rank() == 4;
  if (image && image_format(attributes) == ImageFormat::kChannelsLast)
    return of_channels_last(scene, in, output);
  if (auto attention = attention_reference(scene, in, output)) return attention;
  if (auto recurrent = recurrent_reference(scene, in, output, 0)) return recurrent;
  if (auto layer = layer_reference(scene, in, output)) return layer;
  if (scene.op == "Gemm") return gemm(scene, in, output);
  if (scene.op == "MatMul") return matmul(in, output);
  if (scene.op == "Einsum") return einsum(scene, in, output);
  return std::nullopt;
}

}  // namespace kerf::ops
