#include "tests/partitioner/reference_operators.h"

#include <functional>
#include <map>

#include "runtime/error.h"

namespace kerf::tests {
namespace {

using ops::Shape;
using Index = std::vector<int64_t>;
using Outputs = std::vector<ScalarTensor>;

const Scalar& at(const ScalarTensor& tensor, const Index& index) {
  int64_t flat = 0;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis)
    flat = flat * tensor.shape[axis] + index[static_cast<size_t>(axis)];
  return tensor.elements[static_cast<size_t>(flat)];
}

// `index`, of a larger shape, as NumPy broadcasts `tensor` over it.
const Scalar& repeated_at(const ScalarTensor& tensor, const Index& index) {
  const int rank = tensor.shape.rank();
  Index own(index.end() - rank, index.end());
  for (int axis = 0; axis < rank; ++axis)
    if (tensor.shape[axis] == 1) own[static_cast<size_t>(axis)] = 0;
  return at(tensor, own);
}

template <class Visit>
void for_each_index(const Shape& shape, const Visit& visit) {
  Index index(static_cast<size_t>(shape.rank()), 0);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t left = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      index[static_cast<size_t>(axis)] = left % shape[axis];
      left /= shape[axis];
    }
    visit(index);
  }
}

template <class Element>
ScalarTensor made(const Shape& shape, const Element& element) {
  ScalarTensor tensor{shape, {}};
  for_each_index(shape, [&](const Index& index) { tensor.elements.push_back(element(index)); });
  return tensor;
}

Outputs one(ScalarTensor tensor) { return {std::move(tensor)}; }

int axis_of(const ReferenceCall& call, int64_t otherwise, const Shape& shape) {
  const int64_t axis = attribute_int(call.attributes, "axis", otherwise);
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

Index with(const Index& index, int axis, int64_t at_axis) {
  Index changed = index;
  changed[static_cast<size_t>(axis)] = at_axis;
  return changed;
}

// ---- products

Outputs gemm(const ReferenceCall& call) {
  const ScalarTensor& a = *call.inputs[0];
  const bool transposed = attribute_int(call.attributes, "transB", 0) != 0;
  const double alpha = attribute_float(call.attributes, "alpha", 1);
  const double beta = attribute_float(call.attributes, "beta", 1);
  return one(made(call.outputs[0], [&](const Index& i) {
    Scalar sum;
    for (int64_t k = 0; k < a.shape[1]; ++k)
      sum = sum +
            at(a, {i[0], k}) * at(*call.inputs[1], transposed ? Index{i[1], k} : Index{k, i[1]});
    const bool biased = call.inputs.size() > 2 && call.inputs[2] != nullptr;
    return biased ? alpha * sum + beta * repeated_at(*call.inputs[2], i) : alpha * sum;
  }));
}

Outputs matmul(const ReferenceCall& call) {
  const ScalarTensor& a = *call.inputs[0];
  return one(made(call.outputs[0], [&](const Index& i) {
    Scalar sum;
    for (int64_t k = 0; k < a.shape[a.shape.rank() - 1]; ++k) {
      Index left = i;
      Index right = i;
      left.back() = k;
      right[right.size() - 2] = k;
      sum = sum + repeated_at(a, left) * repeated_at(*call.inputs[1], right);
    }
    return sum;
  }));
}

// Windows as ONNX describes them; visits what of the input the output's index sees.
void for_each_tap(const ReferenceCall& call, const Shape& x, const Index& kernel, const Index& i,
                  const std::function<void(const Index& tap, int64_t y, int64_t x)>& visit) {
  const auto strides = attribute_ints(call.attributes, "strides", {1, 1});
  const auto dilations = attribute_ints(call.attributes, "dilations", {1, 1});
  const auto pads = attribute_ints(call.attributes, "pads", {0, 0, 0, 0});
  for (int64_t ky = 0; ky < kernel[0]; ++ky)
    for (int64_t kx = 0; kx < kernel[1]; ++kx) {
      const int64_t iy = i[2] * strides[0] - pads[0] + ky * dilations[0];
      const int64_t ix = i[3] * strides[1] - pads[1] + kx * dilations[1];
      if (iy >= 0 && iy < x[2] && ix >= 0 && ix < x[3]) visit({ky, kx}, iy, ix);
    }
}

Outputs conv(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const ScalarTensor& w = *call.inputs[1];
  const int64_t filters = w.shape[0] * w.shape[1] / x.shape[1];  // of a group
  return one(made(call.outputs[0], [&](const Index& i) {
    Scalar sum;
    if (call.inputs.size() > 2 && call.inputs[2] != nullptr) sum = at(*call.inputs[2], {i[1]});
    for_each_tap(call, x.shape, {w.shape[2], w.shape[3]}, i,
                 [&](const Index& tap, int64_t iy, int64_t ix) {
                   for (int64_t c = 0; c < w.shape[1]; ++c)
                     sum = sum + at(x, {i[0], i[1] / filters * w.shape[1] + c, iy, ix}) *
                                     at(w, {i[1], c, tap[0], tap[1]});
                 });
    return sum;
  }));
}

Outputs pool(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const auto kernel = attribute_ints(call.attributes, "kernel_shape", {});
  const bool average = call.op == "AveragePool";
  return one(made(call.outputs[0], [&](const Index& i) {
    Scalar result;
    int64_t seen = 0;
    for_each_tap(call, x.shape, kernel, i, [&](const Index&, int64_t iy, int64_t ix) {
      const Scalar& each = at(x, {i[0], i[1], iy, ix});
      if (average && seen > 0)
        result = result + each;
      else if (seen == 0 || each.value() > result.value())
        result = each;
      ++seen;
    });
    return average ? result / static_cast<double>(seen) : result;
  }));
}

// ---- what acts element by element, and what only moves

template <class Function>
Outputs each(const ReferenceCall& call, const Function& function) {
  ScalarTensor y{call.outputs[0], {}};
  for (const Scalar& x : call.inputs[0]->elements) y.elements.push_back(function(x));
  return one(std::move(y));
}

// With channels last a parameter of channels, [C, 1, 1], is repeated along the last axis.
ScalarTensor repeated_operand(const ReferenceCall& call, size_t input) {
  ScalarTensor operand = *call.inputs[input];
  if (attribute_int(call.attributes, "channels_last", 0) != 0 && operand.shape.rank() == 3)
    operand.shape = {operand.shape[0]};
  return operand;
}

template <class Function>
Outputs of_pair(const ReferenceCall& call, const Function& function) {
  const ScalarTensor a = repeated_operand(call, 0);
  const ScalarTensor b = repeated_operand(call, 1);
  return one(made(call.outputs[0],
                  [&](const Index& i) { return function(repeated_at(a, i), repeated_at(b, i)); }));
}

Outputs transpose(const ReferenceCall& call) {
  Index reversed;
  for (int axis = call.outputs[0].rank() - 1; axis >= 0; --axis) reversed.push_back(axis);
  const auto perm = attribute_ints(call.attributes, "perm", reversed);
  return one(made(call.outputs[0], [&](const Index& i) {
    Index from(i.size());
    for (size_t axis = 0; axis < i.size(); ++axis) from[static_cast<size_t>(perm[axis])] = i[axis];
    return at(*call.inputs[0], from);
  }));
}

Outputs split(const ReferenceCall& call) {
  const int axis = axis_of(call, 0, call.inputs[0]->shape);
  Outputs outputs;
  int64_t offset = 0;
  for (const Shape& shape : call.outputs) {
    outputs.push_back(made(shape, [&](const Index& i) {
      return at(*call.inputs[0], with(i, axis, offset + i[static_cast<size_t>(axis)]));
    }));
    offset += shape[axis];
  }
  return outputs;
}

Outputs concat(const ReferenceCall& call) {
  const int axis = axis_of(call, 0, call.outputs[0]);
  return one(made(call.outputs[0], [&](const Index& i) {
    int64_t along = i[static_cast<size_t>(axis)];
    size_t input = 0;
    while (along >= call.inputs[input]->shape[axis]) along -= call.inputs[input++]->shape[axis];
    return at(*call.inputs[input], with(i, axis, along));
  }));
}

Outputs gather(const ReferenceCall& call) {
  const ScalarTensor& data = *call.inputs[0];
  const ScalarTensor& indices = *call.inputs[1];
  const int axis = axis_of(call, 0, data.shape);
  return one(made(call.outputs[0], [&](const Index& i) {
    const auto begin = i.begin() + axis;
    const Index pick(begin, begin + indices.shape.rank());
    Index from(i.begin(), begin);
    from.push_back(static_cast<int64_t>(at(indices, pick).value()));
    from.insert(from.end(), begin + indices.shape.rank(), i.end());
    return at(data, from);
  }));
}

// ---- normalisation

// The largest entry along an axis: what exponentials are taken relative to, lest they overflow.
double largest_along(const ScalarTensor& x, const Index& i, int axis) {
  double most = at(x, with(i, axis, 0)).value();
  for (int64_t k = 1; k < x.shape[axis]; ++k)
    most = std::max(most, at(x, with(i, axis, k)).value());
  return most;
}

Outputs softmax(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const int axis = axis_of(call, -1, x.shape);
  return one(made(x.shape, [&](const Index& i) {
    const Scalar most = largest_along(x, i, axis);
    Scalar sum;
    for (int64_t k = 0; k < x.shape[axis]; ++k) sum = sum + exp(at(x, with(i, axis, k)) - most);
    return exp(at(x, i) - most) / sum;
  }));
}

struct Moments {
  Scalar mean, variance;
};

Moments moments_of(const std::vector<Scalar>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  Moments moments;
  for (const Scalar& each : numbers) moments.mean = moments.mean + each / count;
  for (const Scalar& each : numbers) {
    const Scalar distance = each - moments.mean;
    moments.variance = moments.variance + distance * distance / count;
  }
  return moments;
}

double epsilon_of(const ReferenceCall& call) {
  return double{static_cast<float>(attribute_float(call.attributes, "epsilon", 1e-5))};
}

Outputs layer_normalization(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const int axis = axis_of(call, -1, x.shape);
  std::map<Index, std::vector<Scalar>> rows;
  const auto row_of = [&](const Index& i) { return Index(i.begin(), i.begin() + axis); };
  for_each_index(x.shape, [&](const Index& i) { rows[row_of(i)].push_back(at(x, i)); });
  std::map<Index, Moments> moments;
  for (const auto& [row, numbers] : rows) moments[row] = moments_of(numbers);
  return one(made(x.shape, [&](const Index& i) {
    const Moments& own = moments.at(row_of(i));
    const Index place(i.begin() + axis, i.end());
    const Scalar y = (at(x, i) - own.mean) / sqrt(own.variance + epsilon_of(call));
    const bool biased = call.inputs.size() > 2 && call.inputs[2] != nullptr;
    const Scalar scaled = y * at(*call.inputs[1], place);
    return biased ? scaled + at(*call.inputs[2], place) : scaled;
  }));
}

Outputs batch_normalization(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const bool training = attribute_int(call.attributes, "training_mode", 0) != 0;
  std::vector<std::vector<Scalar>> channels(static_cast<size_t>(x.shape[1]));
  for_each_index(x.shape,
                 [&](const Index& i) { channels[static_cast<size_t>(i[1])].push_back(at(x, i)); });
  std::vector<Moments> moments;
  for (size_t c = 0; c < channels.size(); ++c)
    moments.push_back(training && !channels[c].empty()
                          ? moments_of(channels[c])
                          : Moments{call.inputs[3]->elements[c], call.inputs[4]->elements[c]});
  Outputs outputs = one(made(x.shape, [&](const Index& i) {
    const auto c = static_cast<size_t>(i[1]);
    const Scalar y = (at(x, i) - moments[c].mean) / sqrt(moments[c].variance + epsilon_of(call));
    return y * call.inputs[1]->elements[c] + call.inputs[2]->elements[c];
  }));
  if (!training) return outputs;
  outputs.resize(3);
  for (const Moments& each : moments) {
    outputs[1].elements.push_back(each.mean);
    outputs[2].elements.push_back(each.variance);
  }
  outputs[1].shape = outputs[2].shape = {x.shape[1]};
  return outputs;
}

// Forward, samples first ("layout" 1), without initial states: Y [N, T, 1, H], and the last h and
// c.
Outputs lstm(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const ScalarTensor& w = *call.inputs[1];
  const ScalarTensor& r = *call.inputs[2];
  const int64_t hidden = r.shape[2];
  Outputs outputs;
  for (const Shape& shape : call.outputs) outputs.push_back({shape, {}});
  const auto append = [&](size_t output, const std::vector<Scalar>& numbers) {
    auto& to = outputs[output].elements;
    to.insert(to.end(), numbers.begin(), numbers.end());
  };
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    std::vector<Scalar> h(static_cast<size_t>(hidden));
    std::vector<Scalar> c = h;
    for (int64_t t = 0; t < x.shape[1]; ++t) {
      const std::vector<Scalar> before = h;
      const auto gate = [&](int64_t row) {  // i, o, f, c: blocks of `hidden` rows
        Scalar sum = at(*call.inputs[3], {0, row}) + at(*call.inputs[3], {0, 4 * hidden + row});
        for (int64_t k = 0; k < x.shape[2]; ++k) sum = sum + at(w, {0, row, k}) * at(x, {n, t, k});
        for (int64_t k = 0; k < hidden; ++k)
          sum = sum + at(r, {0, row, k}) * before[static_cast<size_t>(k)];
        return sum;
      };
      for (int64_t j = 0; j < hidden; ++j) {
        Scalar& cell = c[static_cast<size_t>(j)];
        cell = sigmoid(gate(2 * hidden + j)) * cell + sigmoid(gate(j)) * tanh(gate(3 * hidden + j));
        h[static_cast<size_t>(j)] = sigmoid(gate(hidden + j)) * tanh(cell);
      }
      append(0, h);
    }
    append(1, h);
    append(2, c);
  }
  return outputs;
}

// ---- losses

Outputs sum_loss(const ReferenceCall& call) {
  Scalar sum;
  for_each_index(call.inputs[0]->shape, [&](const Index& i) {
    sum = sum + at(*call.inputs[0], i) * repeated_at(*call.inputs[1], i);
  });
  return one({{}, {sum / call.normaliser}});
}

Outputs cross_entropy(const ReferenceCall& call) {
  const ScalarTensor& scores = *call.inputs[0];
  Scalar loss;
  for_each_index(call.inputs[1]->shape, [&](const Index& i) {
    Index score = i;
    score.insert(score.begin() + 1, 0);
    const Scalar most = largest_along(scores, score, 1);
    Scalar sum;
    for (int64_t c = 0; c < scores.shape[1]; ++c)
      sum = sum + exp(at(scores, with(score, 1, c)) - most);
    const auto label = static_cast<int64_t>(at(*call.inputs[1], i).value());
    loss = loss + log(sum) + most - at(scores, with(score, 1, label));
  });
  return one({{}, {loss / call.normaliser}});
}

using Function = std::function<Outputs(const ReferenceCall&)>;

const std::map<std::string, Function>& functions() {
  const auto same = [](const Scalar& x) { return x; };
  const Function move = [same](const ReferenceCall& call) { return each(call, same); };
  static const std::map<std::string, Function> all{
      {"Gemm", gemm},
      {"MatMul", matmul},
      {"Conv", conv},
      {"MaxPool", pool},
      {"AveragePool", pool},
      {"Relu", [](const ReferenceCall& call) { return each(call, relu); }},
      {"Sigmoid", [](const ReferenceCall& call) { return each(call, sigmoid); }},
      {"Tanh",
       [](const ReferenceCall& call) {
         return each(call, [](const Scalar& x) { return tanh(x); });
       }},
      {"Add",
       [](const ReferenceCall& call) {
         return of_pair(call, [](const Scalar& a, const Scalar& b) { return a + b; });
       }},
      {"Sub",
       [](const ReferenceCall& call) {
         return of_pair(call, [](const Scalar& a, const Scalar& b) { return a - b; });
       }},
      {"Mul",
       [](const ReferenceCall& call) {
         return of_pair(call, [](const Scalar& a, const Scalar& b) { return a * b; });
       }},
      {"Flatten", move},
      {"Reshape", move},
      {"Transpose", transpose},
      {"Split", split},
      {"Concat", concat},
      {"Gather", gather},
      {"Softmax", softmax},
      {"LayerNormalization", layer_normalization},
      {"BatchNormalization", batch_normalization},
      {"LSTM", lstm},
      {"SumLoss", sum_loss},
      {"SoftmaxCrossEntropyLoss", cross_entropy}};
  return all;
}

// An image in the order that `axes` says: axis j is what axis axes[j] was.
ScalarTensor moved(const ScalarTensor& image, const Index& axes) {
  Shape shape = image.shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    shape[axis] = image.shape[static_cast<int>(axes[static_cast<size_t>(axis)])];
  return made(shape, [&](const Index& i) {
    Index from(i.size());
    for (size_t axis = 0; axis < i.size(); ++axis) from[static_cast<size_t>(axes[axis])] = i[axis];
    return at(image, from);
  });
}

const Index kToFirst{0, 3, 1, 2};
const Index kToLast{0, 2, 3, 1};

// Windows and channels are computed as ONNX has them; what is said of an axis, and all that acts
// element by element, is said of the axes as they lie.
Outputs compute_channels_last(const ReferenceCall& call, const Function& function) {
  ReferenceCall onnx = call;
  const ScalarTensor image = moved(*call.inputs[0], kToFirst);
  onnx.inputs[0] = &image;
  Shape& y = onnx.outputs[0];
  y = {y[0], y[3], y[1], y[2]};
  Outputs outputs = function(onnx);
  outputs[0] = moved(outputs[0], kToLast);
  return outputs;
}

}  // namespace

std::vector<ScalarTensor> compute(const ReferenceCall& call) {
  const auto found = functions().find(call.op);
  KERF_CHECK(found != functions().end(), "no reference for {}", call.op);
  const bool windows = call.op == "Conv" || call.op == "MaxPool" || call.op == "AveragePool" ||
                       call.op == "BatchNormalization";
  if (windows && attribute_int(call.attributes, "channels_last", 0) != 0)
    return compute_channels_last(call, found->second);
  return found->second(call);
}

}  // namespace kerf::tests
