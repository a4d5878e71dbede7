#include "tests/partitioner/reference_operators.h"

#include <functional>
#include <map>

#include "runtime/error.h"
#include "tests/partitioner/reference_scalars.h"

namespace kerf::tests {
namespace reference {

using ops::Shape;

namespace {

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
}  // namespace reference

std::vector<ScalarTensor> compute(const ReferenceCall& call) {
  const auto found = reference::functions().find(call.op);
  KERF_CHECK(found != reference::functions().end(), "no reference for {}", call.op);
  const bool windows = call.op == "Conv" || call.op == "MaxPool" || call.op == "AveragePool" ||
                       call.op == "BatchNormalization";
  if (windows && attribute_int(call.attributes, "channels_last", 0) != 0)
    return reference::compute_channels_last(call, found->second);
  return found->second(call);
}

}  // namespace kerf::tests
