#include "tests/conformance/operator_reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/image_format.h"

namespace kerf::ops {
namespace {

using Index = std::vector<int64_t>;

int64_t flat(const Index& index, const Shape& shape) {
  int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    at = at * shape[axis] + index[static_cast<size_t>(axis)];
  return at;
}

double at(const HostTensor& tensor, const Index& index) {
  return double{tensor.floats[static_cast<size_t>(flat(index, tensor.shape))]};
}

// `index`, of a larger shape, as NumPy broadcasts `tensor` over it.
double repeated_at(const HostTensor& tensor, const Index& index) {
  const int rank = tensor.shape.rank();
  Index own(index.end() - rank, index.end());
  for (int axis = 0; axis < rank; ++axis)
    if (tensor.shape[axis] == 1) own[static_cast<size_t>(axis)] = 0;
  return at(tensor, own);
}

// Adds up one element.
class Sum {
 public:
  void add(double term) {
    value_ += term;
    magnitude_ += std::abs(term);
    ++terms_;
  }
  void scale(double factor) {
    value_ *= factor;
    magnitude_ *= std::abs(factor);
  }
  void take_larger(double value) {
    value_ = terms_ == 0 ? value : std::max(value_, value);
    ++terms_;
  }
  double value() const { return value_; }
  double magnitude() const { return magnitude_; }
  int64_t terms() const { return terms_; }

 private:
  double value_ = 0;
  double magnitude_ = 0;
  int64_t terms_ = 0;
};

Reference for_each_element(const Shape& output, const std::function<Sum(const Index&)>& element) {
  Reference reference;
  Index index(static_cast<size_t>(output.rank()), 0);
  for (int64_t i = 0; i < output.elements(); ++i) {
    int64_t left = i;
    for (int axis = output.rank() - 1; axis >= 0; --axis) {
      index[static_cast<size_t>(axis)] = left % output[axis];
      left /= output[axis];
    }
    const Sum sum = element(index);
    reference.values.push_back(sum.value());
    reference.magnitudes.push_back(sum.magnitude());
    reference.terms = std::max(reference.terms, sum.terms());
  }
  return reference;
}

// Windows as ONNX describes them, for one axis of space.
struct Slide {
  int64_t kernel, stride, dilation, pad, extent, pad_end;

  int64_t place(int64_t output, int64_t entry) const {
    return output * stride - pad + entry * dilation;
  }
  bool inside(int64_t place) const { return place >= 0 && place < extent; }
  bool in_padding(int64_t place) const { return place < extent + pad_end; }
};

Slide slide(const OperatorCase& scene, const Shape& x, const Shape& y, int64_t kernel, int axis) {
  const auto of = [&](const char* name, int64_t otherwise, int index) {
    const auto found = scene.attributes.find(name);
    if (found == scene.attributes.end()) return otherwise;
    return std::get<std::vector<int64_t>>(found->second)[static_cast<size_t>(index)];
  };
  Slide s{kernel,      of("strides", 1, axis), of("dilations", 1, axis), of("pads", 0, axis),
          x[axis + 2], of("pads", 0, axis + 2)};
  if (scene.attributes.contains("auto_pad"))  // the cases have SAME_UPPER only
    s.pad = ((y[axis + 2] - 1) * s.stride + (kernel - 1) * s.dilation + 1 - s.extent) / 2;
  return s;
}

Reference conv(const OperatorCase& scene, const std::vector<HostTensor>& in, const Shape& y) {
  const HostTensor& x = in[0];
  const HostTensor& w = in[1];
  const bool biased = scene.inputs.size() > 2 && scene.inputs[2].present;
  const int64_t filters = y[1] * w.shape[1] / x.shape[1];  // of a group
  const Slide rows = slide(scene, x.shape, y, w.shape[2], 0);
  const Slide columns = slide(scene, x.shape, y, w.shape[3], 1);
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    if (biased) sum.add(double{in[2].floats[static_cast<size_t>(i[1])]});
    for (int64_t c = 0; c < w.shape[1]; ++c)
      for (int64_t ky = 0; ky < rows.kernel; ++ky)
        for (int64_t kx = 0; kx < columns.kernel; ++kx) {
          const int64_t iy = rows.place(i[2], ky);
          const int64_t ix = columns.place(i[3], kx);
          if (!rows.inside(iy) || !columns.inside(ix)) continue;
          const int64_t channel = i[1] / filters * w.shape[1] + c;
          sum.add(at(x, {i[0], channel, iy, ix}) * at(w, {i[1], c, ky, kx}));
        }
    return sum;
  });
}

Reference pool(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const auto& kernel = std::get<std::vector<int64_t>>(scene.attributes.at("kernel_shape"));
  const Slide rows = slide(scene, x.shape, y, kernel[0], 0);
  const Slide columns = slide(scene, x.shape, y, kernel[1], 1);
  const bool average = scene.op == "AveragePool";
  const bool padding = scene.attributes.contains("count_include_pad");
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    int64_t counted = 0;
    for (int64_t ky = 0; ky < rows.kernel; ++ky)
      for (int64_t kx = 0; kx < columns.kernel; ++kx) {
        const int64_t iy = rows.place(i[2], ky);
        const int64_t ix = columns.place(i[3], kx);
        const bool inside = rows.inside(iy) && columns.inside(ix);
        if (inside || (padding && rows.in_padding(iy) && columns.in_padding(ix))) ++counted;
        if (!inside) continue;
        const double value = at(x, {i[0], i[1], iy, ix});
        if (average)
          sum.add(value);
        else
          sum.take_larger(value);
      }
    if (average) sum.scale(1 / static_cast<double>(counted));
    return sum;
  });
}

Reference gemm(const OperatorCase& scene, const std::vector<HostTensor>& in, const Shape& y) {
  const double alpha = attribute_float(scene.attributes, "alpha", 1);
  const double beta = attribute_float(scene.attributes, "beta", 1);
  const bool transposed = attribute_int(scene.attributes, "transB", 0) != 0;
  const bool biased = scene.inputs.size() > 2 && scene.inputs[2].present;
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    for (int64_t k = 0; k < in[0].shape[1]; ++k)
      sum.add(at(in[0], {i[0], k}) * at(in[1], transposed ? Index{i[1], k} : Index{k, i[1]}));
    sum.scale(alpha);
    if (biased) sum.add(beta * repeated_at(in[2], i));
    return sum;
  });
}

Reference matmul(const std::vector<HostTensor>& in, const Shape& y) {
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    Index left = i;
    Index right = i;
    for (int64_t k = 0; k < in[0].shape[in[0].shape.rank() - 1]; ++k) {
      left.back() = k;
      right[right.size() - 2] = k;
      // The matrices' own axes are never repeated: their extent is what is summed over.
      sum.add(repeated_at(in[0], left) * repeated_at(in[1], right));
    }
    return sum;
  });
}

// Computed as ONNX has it, from and to what lies channels last.
Reference of_channels_last(const OperatorCase& scene, std::vector<HostTensor> in,
                           const Shape& output) {
  constexpr ImageFormat kLast = ImageFormat::kChannelsLast;
  const auto order = [](const Index& onnx) { return Index{onnx[0], onnx[2], onnx[3], onnx[1]}; };
  OperatorCase plain = scene;
  plain.attributes.erase(kChannelsLastAttribute);
  const HostTensor stored = in[0];
  in[0].shape = onnx_shape(kLast, stored.shape);
  for_each_element(in[0].shape, [&](const Index& i) {
    in[0].floats[static_cast<size_t>(flat(i, in[0].shape))] =
        static_cast<float>(at(stored, order(i)));
    return Sum();
  });
  const Shape onnx = onnx_shape(kLast, output);
  const Reference computed = reference_of(plain, in, onnx).value();
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
                                      const Shape& output) {
  if (auto pointwise = pointwise_reference(scene, in, output)) return pointwise;
  if (auto rows = row_reference(scene, in)) return rows;
  const bool windows = scene.op == "Conv" || scene.op == "MaxPool" || scene.op == "AveragePool";
  if (windows && image_format(scene.attributes) == ImageFormat::kChannelsLast)
    return of_channels_last(scene, in, output);
  if (scene.op == "Conv") return conv(scene, in, output);
  if (scene.op == "Gemm") return gemm(scene, in, output);
  if (scene.op == "MatMul") return matmul(in, output);
  if (scene.op == "MaxPool" || scene.op == "AveragePool") return pool(scene, in[0], output);
  return std::nullopt;
}

}  // namespace kerf::ops
