#include "ops/operators/max_unpool.h"

#include "ops/window.h"

namespace kerf::ops {

MaxUnpool::MaxUnpool(const NodeFacts& facts) : BoundOperator("MaxUnpool", facts) {
  want_float32("MaxUnpool", input(0), "X");
  const Shape& x = shape(0);
  if (x.rank() < 3 || !(shape(1) == x) || input(1).spec.dtype != DType::kInt64)
    throw Error(ErrorCode::kUsage,
                format("MaxUnpool wants X [N, C, ...] and int64 I of the same shape, not {} and {}",
                       to_string(x), to_string(shape(1))));
  const auto axes = static_cast<size_t>(x.rank()) - 2;
  const auto numbers = [&](const char* name, size_t count, int64_t least, int64_t otherwise) {
    return window_numbers("MaxUnpool", facts.attributes, name, count, least, otherwise);
  };
  const auto kernel = numbers("kernel_shape", axes, 1, 0);
  const auto strides = numbers("strides", axes, 1, 1);
  const auto pads = numbers("pads", 2 * axes, 0, 0);
  pooled_ = x;
  for (size_t i = 0; i < axes; ++i) {
    check_space("MaxUnpool", x[static_cast<int>(i) + 2], i + 2);
    int64_t& extent = pooled_[static_cast<int>(i) + 2];
    extent = (extent - 1) * strides[i] - pads[i] - pads[axes + i] + kernel[i];
  }
  Shape y = pooled_;
  const auto wanted = attribute_ints(facts.attributes, "output_shape", {y.begin(), y.end()});
  bool fits = wanted.size() == static_cast<size_t>(x.rank());
  for (int i = 2; fits && i < x.rank(); ++i) {
    y[i] = wanted[static_cast<size_t>(i)];
    fits = pooled_[i] >= 1 && y[i] >= pooled_[i];
  }
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("MaxUnpool of {}: its indices count the elements of {}, which lie at the "
                       "begin of the output and must fit into it; output_shape is [{}]",
                       to_string(x), to_string(pooled_), fmt::join(wanted, ", ")));
  space_.axes = axes_of_tensor(x);
  for (IterationAxis& axis : space_.axes)
    axis.undivided = "its indices count the elements of all of it";
  space_.inputs = {same_axes(x.rank()), same_axes(x.rank())};
  std::vector<std::vector<int>> of_output{{0}, {1}};
  of_output.resize(static_cast<size_t>(x.rank()));
  space_.outputs = {operand_axes(of_output)};
  outputs_ = {{DType::kFloat32, y}};
}

Cost MaxUnpool::cost(const LocalSpecs& local) const {
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  return {x, x, 0, 12 * x + 4 * y, 16 * x, 0};
}

BackwardReads MaxUnpool::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {1};
  return reads;
}

OperatorDefinitions define_max_unpool() {
  return {{.name = "MaxUnpool",
           .inputs = {{"X"}, {"I"}},
           .outputs = {{"output"}},
           .attributes = {{"kernel_shape", AttributeType::kInts},
                          {"output_shape", AttributeType::kInts},
                          {"pads", AttributeType::kInts},
                          {"strides", AttributeType::kInts}},
           .input_attributes = {{"output_shape", 2, 9}},
           .bind = bind_as<MaxUnpool>,
           .first_opset = 9}};
}

}  // namespace kerf::ops
